import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { NEVER, nextRun, untilIdle } from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'
import { runCommand, temporaryDirectory } from '#test/support/project.ts'
import { canOwnRedis, startOwnRedis, withClient } from '#test/support/redis.ts'
import { startCompany } from '#test/support/synced.ts'
import { freePort, startRedisProcess } from '#tools/redis_process.ts'

vi.setConfig(DAEMON_TEST)

const NAME = 'bids'
const PASSWORD = 'pw_of_redis_5d21'
const OF_SENTINELS = 'pw_of_sentinels_91ac'

const portOf = (url: string) => new URL(url).port

/** A sentinel that watches Redis, and lets a replica take over after a second of silence. */
async function startSentinel(master: string): Promise<number> {
  const directory = await temporaryDirectory()
  const port = await freePort()
  const file = join(directory, 'sentinel.conf')
  await writeFile(
    file,
    [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${directory}`,
      `requirepass ${OF_SENTINELS}`,
      `sentinel monitor ${NAME} 127.0.0.1 ${portOf(master)} 1`,
      `sentinel auth-pass ${NAME} ${PASSWORD}`,
      `sentinel down-after-milliseconds ${NAME} 1000`,
      `sentinel failover-timeout ${NAME} 5000`,
    ].join('\n'),
  )
  const sentinel = await startRedisProcess({
    binary: inject('redisBinary') as string,
    port,
    directory,
    sentinel: file,
  })
  onTestFinished(() => sentinel.kill())
  return port
}

test.skipIf(!canOwnRedis)('a worker follows a failover that sentinels decide', async () => {
  const master = await startOwnRedis({ password: PASSWORD })
  const secured = ['--masterauth', PASSWORD]
  const replica = await startOwnRedis({
    password: PASSWORD,
    args: [...secured, '--replicaof', '127.0.0.1', portOf(master.url)],
  })
  const sentinel = await startSentinel(master.url)
  const company = await startCompany(notices(1, 3), { SYNC_CRON: NEVER })
  const environment = {
    ...company.environment,
    REDIS_URL: `redis://127.0.0.1:1,127.0.0.1:${sentinel}/2?sentinel=${NAME}`,
    REDIS_SENTINEL_PASSWORD: OF_SENTINELS,
    REDIS_PASSWORD: PASSWORD,
    REDIS_PREFIX: 'sentinel',
  }
  const daemon = await startDaemon(environment)
  expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 3 })
  await untilIdle(daemon)
  const at = async (url: string) => {
    const own = url.replace('//', `//:${PASSWORD}@`)
    return await withClient(own, client => client.info('replication'))
  }
  await until(async () => (await at(replica.url)).includes('master_link_status:up'), { what: 'a replica' })

  await master.kill()
  await until(async () => (await at(replica.url)).includes('role:master'), { what: 'a failover' })
  await until(async () => (await daemon.ask('/readyz')).ok, { what: 'a worker with the new Redis' })
  company.world.update(company.world.ids()[0] as string, { edital: { objeto: 'Outro objeto' } })
  const enqueued = await runCommand(['sync', '--enqueue', '--json'], environment)
  expect(enqueued.code).toBe(0)
  expect(JSON.parse(enqueued.stdout)).toMatchObject({ status: 'ok', loaded: 1 })
  expect(await daemon.stop()).toBe(0)
  const text = JSON.stringify(daemon.lines) + enqueued.stderr
  for (const secret of [PASSWORD, OF_SENTINELS]) expect(text).not.toContain(secret)
})

test('sentinels that do not answer are named', async () => {
  const { environment } = await startCompany(notices(1, 1))
  const nobody = { ...environment, REDIS_URL: 'redis://127.0.0.1:1?sentinel=bids' }
  const away = await runCommand(['sync', '--enqueue', '--wait', '2'], nobody)
  expect(away.code).not.toBe(0)
  expect(away.stderr).toMatch(/Redis at 127\.0\.0\.1:1 does not answer/)
})
