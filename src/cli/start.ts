import { runProgram } from './program.ts'
import type { Forget } from './recover.ts'
import type { Enqueue } from './sync.ts'

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

/** The daemon's side of `restore`. */
const forget: Forget = async ({ environment, log, ...restored }) => {
  const [{ readRedisSettings }, { forgetBefore }] = await Promise.all([
    import('#config/daemon.ts'),
    import('#jobs/after_restore.ts'),
  ])
  return await forgetBefore(readRedisSettings(environment), restored, log)
}

await runProgram({ enqueue, forget })
