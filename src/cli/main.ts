#!/usr/bin/env node
import { enableCompileCache } from 'node:module'

// Nearly halves the startup time. It must be enabled before anything else is loaded. The cache is in the system's
// temporary directory; if that is not writable, commands start without the cache.
enableCompileCache()
await import('./program.ts')
