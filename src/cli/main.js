#!/usr/bin/env -S node --min-semi-space-size=16
import { enableCompileCache } from 'node:module'

// The option above, which npm's scripts have as well, lets the heap begin with room for young objects. Otherwise a short
// command spends a quarter of its time collecting them, because the heap grows only step by step.
//
// JavaScript, so that no command loads Node's TypeScript parser: everything else comes parsed and compiled from the
// cache, in half the time. The cache is in the system's temporary directory; if that is not writable, commands start
// without it.
enableCompileCache()
await import('./start.ts')
