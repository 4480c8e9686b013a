import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { ADMIN_TOKEN, DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import { NEVER, redisSettings } from '#test/support/daemon_runs.ts'
import { bearer, errorOf, STATUS, SYNC } from '#test/support/http.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'

vi.setConfig(DAEMON_TEST)

const PAUSE = '/queues/api/queues/runs/pause'
/** No run changes its answer. */
const NOBODY = '/companies/nobody/status'
const RESUME = '/queues/api/queues/runs/resume'

/** A worker, and `editais keys` beside it. */
async function start() {
  const environment = {
    ...(await redisSettings()),
    API_BASE_URL: 'http://127.0.0.1:9',
    API_KEY: 'k',
    API_RETRIES: '0',
    COMPANY: 'acme',
    DATA_DIR: join(await temporaryDirectory(), 'data'),
    SYNC_CRON: NEVER,
  }
  const daemon = await startDaemon(environment)
  return {
    daemon,
    ask: (key: string, path: string, method = 'GET') =>
      fetch(`${daemon.url}${path}`, { method, headers: bearer(key) }),
    async keys(...args: readonly string[]): Promise<string> {
      const { code, stdout, stderr } = await runShared(['keys', ...args], environment, tmpdir())
      expect(code, stderr).toBe(0)
      return stdout.trim()
    },
  }
}

/** The audit lines: operator, method, path, result. */
function audited({ lines }: Daemon): unknown[] {
  return lines
    .filter(({ audit }) => audit === 'admin')
    .map(({ operator, method, path, address, result }) => [operator, method, path, address, result])
}

test('a key that watches reads, and gets 403 for what changes something; each change is in the log', async () => {
  const { daemon, ask, keys } = await start()
  const create = (...args: string[]) => keys('create', '--description', 'ops', ...args)
  // Created while the worker runs, before which there was no file of keys.
  const watches = await create('--scopes', 'watch')
  const operates = await create('--scopes', 'operate')
  const ofAcme = await create('--scopes', 'operate', '--company', 'acme')
  await until(async () => (await ask(watches, '/queues/api/queues')).status === 200, { what: 'the queues' })
  expect((await ask(operates, PAUSE, 'PUT')).status).toBe(200)
  for (const path of [SYNC, PAUSE, RESUME]) {
    const refused = await ask(watches, path, path === SYNC ? 'POST' : 'PUT')
    expect([path, refused.status]).toEqual([path, 403])
    expect((await errorOf(refused)).detail).toMatch(/^edk_\w{8} may only watch\. This needs a key with/)
  }
  expect((await ask(watches, NOBODY)).status).toBe(404)
  expect((await ask(operates, SYNC, 'POST')).status).toBe(202)
  expect((await ask(ADMIN_TOKEN, SYNC, 'POST')).status).toBe(202)
  expect((await ask(operates, '/companies/nobody/sync', 'POST')).status).toBe(404)
  expect((await ask(ofAcme, SYNC, 'POST')).status).toBe(202)
  expect((await ask(ofAcme, RESUME, 'PUT')).status).toBe(403)
  expect((await ask(`${operates}x`, STATUS)).status).toBe(401)
  expect((await fetch(`${daemon.url}${STATUS}`)).status).toBe(401)
  const from = '127.0.0.1'
  const [w, o, a] = [watches, operates, ofAcme].map(key => key.slice(0, 12))
  const lines = await until(() => audited(daemon).length >= 10 && audited(daemon), {
    what: 'all audit lines',
  })
  expect(lines).toEqual([
    [o, 'PUT', PAUSE, from, 'accepted'],
    [w, 'POST', SYNC, from, 'refused'],
    [w, 'PUT', PAUSE, from, 'refused'],
    [w, 'PUT', RESUME, from, 'refused'],
    [o, 'POST', SYNC, from, 'accepted'],
    ['ADMIN_TOKEN', 'POST', SYNC, from, 'accepted'],
    [o, 'POST', '/companies/nobody/sync', from, 'failed'],
    [a, 'POST', SYNC, from, 'accepted'],
    [a, 'PUT', RESUME, from, 'refused'],
    [null, 'GET', STATUS, from, 'refused'],
  ])
  const log = JSON.stringify(daemon.lines)
  for (const secret of [watches, operates, ofAcme, ADMIN_TOKEN]) expect(log).not.toContain(secret)
})

test('a rotated key works beside the old one, and a revoked one stops at once, without a restart', async () => {
  const { ask, keys } = await start()
  const old = await keys('create', '--description', 'ops', '--scopes', 'operate', '--expires', '90d')
  const statusOf = async (key: string) => (await ask(key, NOBODY)).status
  expect(await statusOf(old)).toBe(404)
  const next = await keys('rotate', old.slice(0, 12))
  expect([await statusOf(old), await statusOf(next)]).toEqual([404, 404])
  expect(await keys('list')).toMatch(/│ all companies │ ops +│ operate │/)
  expect(await keys('revoke', old)).toContain('(all companies, ops) is refused from now on.')
  expect([await statusOf(old), await statusOf(next)]).toEqual([401, 404])
})

test('a worker does not start with ADMIN_TOKENS_FILE, and says what to do', async () => {
  const starting = startDaemon({ ...(await redisSettings()), ADMIN_TOKENS_FILE: '/run/secrets/tokens' })
  await expect(starting).rejects.toThrow(
    'exited with 2:\nADMIN_TOKENS_FILE is no longer read: operators have keys. For each of its lines, run `editais keys create --description NAME --scopes operate` (`watch` for `read`) or, if DATA_DIR does not last, set ADMIN_TOKEN_FILE; then unset ADMIN_TOKENS_FILE.',
  )
})
