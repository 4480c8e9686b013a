#!/usr/bin/env node
import { enableCompileCache } from 'node:module'
import type { Enqueue } from './sync.ts'

// Nearly halves the startup time. It must be enabled before anything else is loaded. The cache is in the system's
// temporary directory; if that is not writable, commands start without the cache.
enableCompileCache()
const { runProgram } = await import('./program.ts')

/** The daemon's side of `sync --enqueue`; loaded only for it, so that commands without Redis start sooner. */
const enqueue: Enqueue = async ({ environment, ...request }) => {
  const [{ readRedisSettings }, { enqueue }, { logLibraryLines }] = await Promise.all([
    import('#config/daemon.ts'),
    import('#jobs/enqueue.ts'),
    import('#jobs/library_lines.ts'),
  ])
  logLibraryLines(request.log)
  return await enqueue({ ...request, redis: readRedisSettings(environment) })
}

await runProgram({ enqueue })
