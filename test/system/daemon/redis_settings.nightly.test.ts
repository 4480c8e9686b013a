import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { readDaemonSettings } from '#config/daemon.ts'
import { DAEMON_TEST, startDaemon } from '#test/support/daemon.ts'
import { NEVER, nextRun, untilIdle } from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'
import { runCommand, temporaryDirectory } from '#test/support/project.ts'
import { canOwnRedis, startOwnRedis, withClient } from '#test/support/redis.ts'
import { smallestRights } from '#test/support/redis_rights.ts'
import { makeAuthority, startTlsRedis } from '#test/support/redis_states.ts'
import { startCompany } from '#test/support/synced.ts'
import { freePort } from '#tools/redis_process.ts'

vi.setConfig(DAEMON_TEST)

const ENQUEUE = ['sync', '--enqueue', '--wait', '30']

test.skipIf(!canOwnRedis)(
  'the minimal rights of the docs are enough, even without INFO; no library logs lines of its own',
  async () => {
    const redis = await startOwnRedis()
    await withClient(redis.url, async client => {
      await client.acl('SETUSER', 'worker', 'on', '>pw', ...smallestRights('states'), '-info')
    })
    const company = await startCompany(notices(1, 3), { SYNC_CRON: NEVER })
    const environment = {
      ...company.environment,
      REDIS_URL: redis.url.replace('//', '//worker:pw@'),
      REDIS_PREFIX: 'states',
    }
    const daemon = await startDaemon(environment)
    expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 3 })
    await untilIdle(daemon)
    const enqueued = await runCommand(ENQUEUE, { ...environment, LOG_LEVEL: 'info' })
    expect(enqueued).toMatchObject({ code: 0 })
    for (const what of ['pause', 'resume'])
      expect((await daemon.ask(`/queues/api/queues/runs/${what}`, { method: 'PUT' })).status).toBe(200)
    expect((await daemon.ask('/readyz')).status).toBe(200)
    expect(await daemon.stop()).toBe(0)
    const denied = (await withClient(redis.url, client => client.acl('LOG'))) as unknown[][]
    const objects = denied.map(entry => entry[entry.indexOf('object') + 1])
    // Later versions than 7.0 know SETINFO, which only names the library.
    expect(objects.filter(what => !/^(info|client\|setinfo)$/.test(String(what)))).toEqual([])
    expect(objects).toContain('info')
    expect(daemon.lines.filter(({ level }) => level !== 'info')).toEqual([])
    expect(enqueued.stderr.split('\n').filter(line => line !== '' && !line.startsWith('{'))).toEqual([])
  },
)

test.skipIf(!canOwnRedis)('a password that Redis does not need is harmless', async () => {
  const redis = await startOwnRedis()
  const company = await startCompany(notices(1, 3), { SYNC_CRON: NEVER })
  const daemon = await startDaemon({
    ...company.environment,
    REDIS_URL: redis.url,
    REDIS_PASSWORD: 'pw_7f31',
    REDIS_PREFIX: 'open',
  })
  expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok' })
  expect(daemon.lines.filter(({ level }) => level !== 'info')).toEqual([])
})

test.skipIf(!canOwnRedis)(
  'a database that does not exist in Redis is refused, and no other is used',
  async () => {
    const redis = await startOwnRedis()
    const company = await startCompany(notices(1, 3), { SYNC_CRON: NEVER })
    const environment = { ...company.environment, REDIS_URL: `${redis.url}/99`, REDIS_PREFIX: 'ninety-nine' }
    const sentence =
      /^Redis at 127\.0\.0\.1:\d+ has no database 99\. Write a lower number at the end of REDIS_URL, then restart\./
    const daemon = await startDaemon(environment)
    await daemon.waitFor(({ msg }) => sentence.test(msg))
    const ready = await daemon.ask('/readyz')
    expect(ready.status).toBe(503)
    expect(await ready.json()).toMatchObject({
      checks: { redis: { detail: expect.stringMatching(sentence) } },
    })
    const enqueued = await runCommand(ENQUEUE, environment)
    expect(enqueued).toMatchObject({ code: 1, stderr: expect.stringContaining('has no database 99') })
    expect(await withClient(redis.url, client => client.keys('*'))).toEqual([])
    expect(await daemon.stop()).toBe(0)
    expect(daemon.lines.filter(({ level }) => level === 'error')).toHaveLength(1)
    const other = await startDaemon({ ...environment, REDIS_URL: `${redis.url}/3` })
    expect(await nextRun(other, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 3 })
    const keys = (database: number) => withClient(`${redis.url}/${database}`, client => client.dbsize())
    expect([await keys(0), (await keys(3)) > 0]).toEqual([0, true])
  },
)

test('a Redis in protected mode is reported, with what to do', async () => {
  // Redis 7.0 sends this to clients on other machines, and hangs up.
  const DENIED =
    "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so.\r\n"
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.end(DENIED)
  })
  const port = await freePort()
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const company = await startCompany(notices(1, 3), { SYNC_CRON: NEVER })
  const environment = { ...company.environment, REDIS_URL: `redis://127.0.0.1:${port}` }
  const sentence =
    'Redis rejected the command (DENIED): it is in protected mode: without a password it accepts connections only from its own machine. Set one (requirepass), write it to the file of REDIS_PASSWORD_FILE, then restart.'
  const daemon = await startDaemon(environment)
  await daemon.waitFor(({ msg }) => msg === sentence)
  expect(await (await daemon.ask('/readyz')).json()).toMatchObject({
    checks: { redis: { detail: sentence } },
  })
  const enqueued = await runCommand(ENQUEUE, environment)
  expect(enqueued).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`${sentence} No run was requested.`),
  })
  expect(daemon.lines.filter(({ level }) => level === 'error')).toMatchObject([{ msg: sentence }])
})

test.skipIf(!canOwnRedis)(
  'a problem with TLS is reported in one sentence, and nothing is submitted',
  async () => {
    const company = await startCompany(notices(1, 3), { SYNC_CRON: NEVER })
    const plain = await startOwnRedis()
    const secret = '//worker:pw_7f31@'
    const ask = async (url: string, authority: string | null) => {
      const tls = authority ? { REDIS_CA_FILE: authority } : {}
      const { code, stderr } = await runCommand(ENQUEUE, {
        ...company.environment,
        ...tls,
        REDIS_URL: url.replace('//', secret),
      })
      expect({ code, leaks: stderr.includes('pw_7f31') }, stderr).toEqual({ code: 1, leaks: false })
      expect(stderr).not.toMatch(/\n {4}at /)
      const last = stderr.trim().split('\n').at(-1) as string
      return last.replaceAll(/127\.0\.0\.1:\d+/g, 'HOST')
    }
    const askTls = async (made: Parameters<typeof makeAuthority>[0]) => {
      const authority = await makeAuthority(made)
      const { url } = await startTlsRedis(authority)
      return await ask(url.replace('redis:', 'rediss:'), authority.certificate)
    }
    expect(await askTls({ days: -1 })).toBe(
      'The certificate of Redis at HOST has expired. Renew it. No run was requested.',
    )
    expect(await askTls({ name: 'DNS:redis.example.com' })).toBe(
      'The certificate of Redis is not for HOST. Write the name in the certificate into REDIS_URL, or give Redis a certificate for this name. No run was requested.',
    )
    // The command gives up before the connection times out.
    expect(await ask(plain.url.replace('redis:', 'rediss:'), null)).toBe(
      'Redis at HOST does not answer (nothing within 5 s). Start it, or set REDIS_URL. If it does not speak TLS, write redis://. No run was requested.',
    )
    const { url } = await startTlsRedis(await makeAuthority())
    expect(await ask(url, null)).toMatch(/If it expects TLS, write rediss:\/\/\./)
  },
)

test('invalid Redis settings are refused at the start', async () => {
  const directory = await temporaryDirectory()
  const { certificate, key } = await makeAuthority()
  const empty = join(directory, 'empty.pem')
  await writeFile(empty, '\n')
  const read = (environment: Record<string, string>) => () => readDaemonSettings(environment)
  const tls = 'rediss://127.0.0.1:6379'
  expect(read({ REDIS_URL: tls, REDIS_CA_FILE: certificate })().redis.ca).toContain('BEGIN CERTIFICATE')
  expect(read({ REDIS_URL: tls })().redis).toMatchObject({ ca: null })
  for (const [environment, expected] of [
    [
      { REDIS_CA_FILE: certificate },
      'begins with redis://, which is without TLS. Change it to rediss://, or unset',
    ],
    [{ REDIS_URL: tls, REDIS_CA_FILE: join(directory, 'none') }, 'cannot be read: ENOENT.'],
    [{ REDIS_URL: tls, REDIS_CA_FILE: empty }, 'holds no PEM certificate'],
    [{ REDIS_URL: tls, REDIS_CA_FILE: key }, 'holds no PEM certificate'],
    [{ REDIS_URL: 'redis://127.0.0.1:6379/one' }, 'may have only a database number after the port'],
  ] as const) {
    expect(read(environment)).toThrow(expected)
  }
})
