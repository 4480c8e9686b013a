import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import { NEVER, nextRun, untilIdle } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { notices } from '#test/support/notices.ts'
import { type Environment, filesBelow, runCommand, temporaryDirectory } from '#test/support/project.ts'
import { canOwnRedis, startOwnRedis, withClient } from '#test/support/redis.ts'
import { startCompany } from '#test/support/synced.ts'

vi.setConfig(DAEMON_TEST)

const TOTAL = 3
/** With every kind of character that an address would have to encode. */
const PASSWORD = 'p@ss:w/rd%41?#é+7c1e55d0'
const WRONG_PASSWORD = 'wrong_0b94c2e7'
const ENQUEUE = ['sync', '--enqueue', '--wait', '20']

/** A Redis with a password, and the settings of a worker; the password is in a file. */
async function startSecured() {
  const redis = await startOwnRedis({ password: PASSWORD })
  const company = await startCompany(notices(1, TOTAL), { SYNC_CRON: NEVER, API_TIMEOUT_MS: '60000' })
  const directory = await temporaryDirectory()
  const file = async (name: string, text: string) => {
    const path = join(directory, name)
    await writeFile(path, text)
    return path
  }
  const open = { ...company.environment, REDIS_URL: redis.url, REDIS_PREFIX: 'secured' }
  const environment = { ...open, REDIS_PASSWORD_FILE: await file('password', `${PASSWORD}\n`) }
  const asAdmin = async <T>(use: (client: Redis) => Promise<T>) =>
    await withClient(redis.url.replace('//', `//:${encodeURIComponent(PASSWORD)}@`), use)
  return { company, directory, open, environment, file, asAdmin }
}

test.skipIf(!canOwnRedis)(
  'a worker and sync --enqueue use the Redis password of a file, which appears nowhere else',
  async () => {
    const { company, environment, asAdmin } = await startSecured()
    const daemon = await startDaemon(environment, { env: { LOG_LEVEL: 'trace' } })
    expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: TOTAL })
    await untilIdle(daemon)
    const held = holdAfter(company.sandbox, 'list', { passing: 0, waiting: 1 })
    const enqueued = runCommand(ENQUEUE, { ...environment, LOG_LEVEL: 'trace' })
    await held.reached
    const pids = [daemon.pid, ...daemon.runs()]
    expect(pids).toHaveLength(2)
    const processes = await Promise.all(
      pids.flatMap(pid =>
        ['cmdline', 'environ'].map(name => readFile(`/proc/${pid}/${name}`, 'latin1').catch(() => '')),
      ),
    )
    held.release()
    const { code, stdout, stderr } = await enqueued
    expect({ code, stderr }).toMatchObject({ code: 0 })

    // On a busy machine, Redis may not answer within a second.
    const answers = await until(
      async () => {
        const texts = await answersOf(daemon)
        return texts.includes('"redis":{"ok":true}') && texts
      },
      { what: 'a ready worker' },
    )
    // BullMQ's connections also use it when they reconnect.
    const lines = daemon.lines.length
    await asAdmin(client => client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'))
    const again = await runCommand(ENQUEUE, environment)
    expect(again).toMatchObject({ code: 0 })
    expect(daemon.lines.slice(lines).filter(({ msg }) => /refuses/.test(msg))).toEqual([])
    expect(await daemon.stop()).toBe(0)
    expectNowhere(PASSWORD, {
      processes: processes.join('\n'),
      stdout,
      stderr: stderr + again.stderr,
      answers,
      log: JSON.stringify(daemon.lines),
      files: await filesOf(company.environment.DATA_DIR ?? ''),
    })
  },
)

test.skipIf(!canOwnRedis)(
  'a missing or wrong password is reported by both; the worker starts once Redis accepts it',
  async () => {
    const { open, environment, file, asAdmin } = await startSecured()
    const wrong = { ...open, REDIS_PASSWORD_FILE: await file('wrong', WRONG_PASSWORD) }
    const noPassword =
      'Redis rejected the command (NOAUTH): it requires a password. Write it to a file, set REDIS_PASSWORD_FILE to the path, then restart.'
    const wrongPassword =
      'Redis rejected the command (WRONGPASS): the password (or the user in REDIS_URL) is wrong. Correct REDIS_PASSWORD_FILE, REDIS_PASSWORD or REDIS_URL, then restart.'
    for (const [settings, sentence] of [
      [open, noPassword],
      [wrong, wrongPassword],
    ] as const) {
      const daemon = await startDaemon(settings, { env: { LOG_LEVEL: 'trace' } })
      await daemon.waitFor(({ msg }) => msg === sentence)
      const ready = await daemon.ask('/readyz')
      expect(ready.status).toBe(503)
      expect(await ready.json()).toMatchObject({ checks: { redis: { ok: false, detail: sentence } } })
      const { code, stdout, stderr } = await runCommand(ENQUEUE, settings)
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toContain(`${sentence} No run was requested.`)
      expect(daemon.lines.filter(({ msg }) => msg === sentence)).toHaveLength(1)
      expect(daemon.lines.filter(({ msg }) => /does not answer/.test(msg))).toEqual([])
      expectNowhere(WRONG_PASSWORD, {
        stderr,
        log: JSON.stringify(daemon.lines),
        answers: await answersOf(daemon),
      })
      if (settings !== wrong) continue
      // Redis is given the password that the worker has.
      await asAdmin(client => client.config('SET', 'requirepass', WRONG_PASSWORD))
      await daemon.waitFor(({ msg }) => msg === 'Redis answers again.')
      expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: TOTAL })
    }
    // The file overrides a password in the address, as for every secret.
    const inAddress = environment.REDIS_URL.replace('//', `//:${WRONG_PASSWORD}@`)
    const enqueue = (settings: Environment) => runCommand(ENQUEUE, settings)
    const [byFile, byAddress, byVariable] = await Promise.all([
      enqueue({ ...environment, REDIS_URL: inAddress }),
      enqueue({ ...open, REDIS_URL: inAddress }),
      enqueue({ ...open, REDIS_PASSWORD: WRONG_PASSWORD }),
    ])
    expect(byFile.stderr).toContain(wrongPassword)
    expect([byFile.code, byAddress.code, byVariable.code]).toEqual([1, 0, 0])
  },
)

test('an unusable password file ends a command before it connects', async () => {
  const directory = await temporaryDirectory()
  const empty = join(directory, 'empty')
  await writeFile(empty, '\n')
  const missing = join(directory, 'missing')
  // Nothing listens there: an attempt to connect would be reported.
  const nowhere = { COMPANY: 'acme', DATA_DIR: directory, REDIS_URL: 'redis://127.0.0.1:9' }
  for (const [path, expected] of [
    [missing, `REDIS_PASSWORD_FILE (${missing}) cannot be read: ENOENT.`],
    [empty, `REDIS_PASSWORD_FILE (${empty}) is empty. Write the Redis password into it`],
    [PASSWORD, 'REDIS_PASSWORD_FILE (not shown: it may be the secret'],
  ] as const) {
    const ended = await runCommand(['sync', '--enqueue'], { ...nowhere, REDIS_PASSWORD_FILE: path })
    expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(expected) })
    expectNowhere(PASSWORD, { stderr: ended.stderr })
  }
  const noHost = { ...nowhere, REDIS_URL: 'redis:///1', REDIS_PASSWORD: PASSWORD }
  expect(await runCommand(['sync', '--enqueue'], noHost)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('REDIS_URL=(not shown): must be an address'),
  })
})

async function answersOf(daemon: Daemon): Promise<string> {
  await until(async () => (await daemon.ask('/healthz')).status === 200, { what: 'an answer' })
  const paths = ['/metrics', '/readyz', '/companies/acme/status', '/queues/api/queues']
  return (await Promise.all(paths.map(async path => await (await daemon.ask(path)).text()))).join('\n')
}

async function filesOf(directory: string): Promise<string> {
  const files = await filesBelow(directory)
  return [...files].map(([path, bytes]) => `${path}\n${bytes.toString('latin1')}`).join('\n')
}

/** The secret as it is, and as an address or a header would encode it. */
function expectNowhere(secret: string, texts: Readonly<Record<string, string>>): void {
  const forms = [
    secret,
    encodeURIComponent(secret),
    new URL(`redis://:${secret.replaceAll(/[/?#]/g, '')}@x`).password,
  ]
  forms.push(
    Buffer.from(secret).toString('base64').replace(/=+$/, ''),
    Buffer.from(secret).toString('latin1'),
  )
  const found = Object.entries(texts).filter(([, text]) => forms.some(form => text.includes(form)))
  expect(found).toEqual([])
}
