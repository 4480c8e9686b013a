import { mkdir } from 'node:fs/promises'
import { FatalError } from '#src/lib/errors.ts'
import { freePort, startRedisProcess } from '#tools/redis_process.ts'
import { beforeKillAll } from './processes.ts'

export type Redis = { readonly url: string; close(): Promise<void> }

/**
 * Starts the machine's redis-server on a free port, with the settings that the daemon needs.
 * @param host the address that it listens on.
 * @throws FatalError if redis-server is not installed.
 */
export async function startRedis(directory: string, host = '127.0.0.1'): Promise<Redis> {
  await mkdir(directory)
  const port = await freePort()
  // Without a password, Redis protects itself from other addresses.
  const args = ['--bind', host, '--protected-mode', 'no']
  const server = await startRedisProcess({ binary: 'redis-server', port, directory, args }).catch(error => {
    throw explained(error)
  })
  const forget = beforeKillAll(server.kill)
  return {
    url: `redis://${host}:${port}`,
    async close() {
      forget()
      await server.kill()
    },
  }
}

function explained(error: unknown): unknown {
  if (!/redis-server.*not found/.test(String(error))) return error
  return new FatalError(
    'This starts its own Redis, but redis-server is not on PATH. Install it (apt-get install redis-server, brew install redis) and run this again.',
  )
}
