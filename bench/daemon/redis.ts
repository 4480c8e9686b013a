import { mkdir } from 'node:fs/promises'
import { FatalError } from '#src/platform/errors.ts'
import { freePort, startRedisProcess } from '#tools/redis_process.ts'
import { beforeKillAll } from '../processes.ts'

export type Redis = { readonly url: string; close(): Promise<void> }

/**
 * Starts the machine's redis-server on a free port, with the settings that the daemon needs.
 * @throws FatalError if redis-server is not installed.
 */
export async function startRedis(directory: string): Promise<Redis> {
  await mkdir(directory)
  const port = await freePort()
  const server = await startRedisProcess({ binary: 'redis-server', port, directory }).catch(error => {
    throw explained(error)
  })
  const forget = beforeKillAll(server.kill)
  return {
    url: `redis://127.0.0.1:${port}`,
    async close() {
      forget()
      await server.kill()
    },
  }
}

function explained(error: unknown): unknown {
  if (!/redis-server.*not found/.test(String(error))) return error
  return new FatalError(
    'The bench of the daemon starts its own Redis, but redis-server is not on PATH. Install it (apt-get install redis-server, brew install redis) and run this again.',
  )
}
