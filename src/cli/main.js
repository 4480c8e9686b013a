#!/usr/bin/env -S node --min-semi-space-size=16
import { keepCompiled } from '#src/lib/compile_cache.js'

// The option above, which npm's scripts have as well, lets the heap begin with room for young objects. Otherwise a short
// command spends a quarter of its time collecting them, because the heap grows only step by step.
//
// JavaScript, so that no command loads Node's TypeScript parser: everything else comes parsed and compiled from the
// cache, in half the time.
keepCompiled()
await import('./start.ts')
