#!/usr/bin/env node
import { enableCompileCache } from 'node:module'

// JavaScript, so that no command loads Node's TypeScript parser: everything else comes parsed and compiled from the
// cache, in half the time. The cache is in the system's temporary directory; if that is not writable, commands start
// without it.
enableCompileCache()
await import('./start.ts')
