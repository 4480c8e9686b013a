import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { SCOPES, type Scope } from '#src/server/key_file.ts'
import { notices } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

const ABOUT = '/api/v1/mirror'

test("the mirror's own API answers a key within its scopes and its quota, and describes itself without one", async () => {
  const { environment } = await startSynced(notices(1, 2))
  const keys = (args: readonly string[]) => runShared(['keys', ...args], environment)
  const create = async (...args: string[]) =>
    (await keys(['create', '--description', 'ERP', ...args])).stdout.trim()
  const slow = await create('--scopes', 'read', '--max-rps', '2')
  const follower = await create('--scopes', 'feed,sql')
  const { ask, json, lines } = await serveApi(environment)

  const about = await ask(ABOUT)
  expect(about.status).toBe(200)
  expect(JSON.parse(about.body.toString())).toEqual({
    company: 'acme',
    key: expect.stringMatching(/^edk_[0-9a-f]{8}$/),
    scopes: ['read', 'feed'],
    max_rps: null,
    snapshot: expect.stringMatching(/^\d{8}T/),
    as_of: about.headers['x-data-as-of'],
  })
  expect(about.headers.ratelimit).toBeUndefined()

  const limited = await ask(ABOUT, { key: slow })
  expect(limited.headers).toMatchObject({ 'ratelimit-policy': '"key";q=2;w=1', ratelimit: '"key";r=1;t=1' })
  await ask(ABOUT, { key: slow })
  const refused = await ask(ABOUT, { key: slow })
  expect(refused).toMatchObject({ status: 429, headers: { 'retry-after': '1' } })
  // The contract's paths have the same quota, and no header more than before.
  expect((await ask('/api/v1/editais', { key: slow })).status).toBe(429)

  const without = await ask(ABOUT, { key: follower })
  expect(without.status).toBe(403)
  expect(JSON.parse(without.body.toString())).toEqual({
    error: 'forbidden',
    detail: expect.stringContaining('a key with the scope read; edk_'),
  })
  expect(without.body.toString()).toContain('--scopes feed,sql,read')
  // Every key reads the contract's API.
  const page = await ask('/api/v1/editais', { key: follower })
  expect(page.status).toBe(200)
  expect(page.headers.ratelimit).toBeUndefined()

  for (const [path, method, status] of [
    [`${ABOUT}?limit=3`, 'GET', 400],
    [ABOUT, 'POST', 405],
    [`${ABOUT}/nothing`, 'GET', 404],
    [`${ABOUT}/`, 'GET', 404],
  ] as const) {
    const answer = await ask(path, { method })
    expect(answer.status, path).toBe(status)
    expect(JSON.parse(answer.body.toString())).toHaveProperty('detail')
  }
  expect(await ask(ABOUT, { key: null })).toMatchObject({ status: 401 })
  expect(await ask(`${ABOUT}/nothing`, { key: null })).toMatchObject({ status: 401 })
  const description = await json<{ paths: object }>(`${ABOUT}/openapi.json`, { key: null })
  expect(Object.keys(description.paths)).toContain(ABOUT)
  expect(lines.join('')).toContain('"route":"about"')
})

test('every answer below the mirror has what is left of the quota, also a refusal, and names its route', async () => {
  const { environment } = await startSynced(notices(1, 2))
  const { ask, store, lines } = await serveApi(environment)
  const key = (maxRps: number) =>
    store.create('acme', 'ERP', new Date(), null, { scopes: ['read', 'feed'], maxRps })
  const generous = key(50)
  for (const path of ['', '/editais', '/changes', '/export.ndjson', '/webhooks', '/nothing', '/editais?uf=1'])
    expect((await ask(`${ABOUT}${path}`, { key: generous })).headers, path).toMatchObject({
      'ratelimit-policy': '"key";q=50;w=1',
      ratelimit: expect.stringMatching(/^"key";r=\d+;t=1$/),
    })
  const slow = key(1)
  await ask(`${ABOUT}/changes`, { key: slow })
  const refused = await ask(`${ABOUT}/changes`, { key: slow })
  expect(refused).toMatchObject({ status: 429, headers: { ratelimit: '"key";r=0;t=1' } })
  const logged = lines.filter(line => line.includes('"status":429'))
  expect(logged.map(line => JSON.parse(line).route)).toEqual(['changes'])
})

/** The scope that each operation of the description needs: a new one must be listed here. */
const SCOPES_OF_ROUTES: Readonly<Record<string, Scope>> = {
  'GET /api/v1/mirror': 'read',
  'GET /api/v1/mirror/editais': 'read',
  'GET /api/v1/mirror/export.ndjson': 'read',
  'POST /api/v1/mirror/mcp': 'read',
  'GET /api/v1/mirror/changes': 'feed',
  'GET /api/v1/mirror/webhooks': 'feed',
  'POST /api/v1/mirror/webhooks/{id}/replay': 'feed',
}

test('a key with one scope passes only where it is the scope, whatever the method that reads', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const { ask, json, store } = await serveApi(environment)
  const { paths } = await json<{ paths: Record<string, object> }>(`${ABOUT}/openapi.json`)
  const described = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
  )
  expect(described.sort()).toEqual(Object.keys(SCOPES_OF_ROUTES).sort())
  for (const scope of SCOPES) {
    const key = store.create('acme', scope, new Date(), null, { scopes: [scope], maxRps: null })
    for (const [route, needed] of Object.entries(SCOPES_OF_ROUTES)) {
      const [method = '', path = ''] = route.replace('{id}', '1').split(' ')
      for (const one of method === 'GET' ? ['GET', 'HEAD'] : [method]) {
        const { status } = await ask(path, { key, method: one })
        expect([scope, one, route, status === 403]).toEqual([scope, one, route, scope !== needed])
      }
    }
  }
})

test('scopes of a key stay when it is rotated; unknown ones are refused; keys of earlier versions read and follow', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const keys = (args: readonly string[]) => runShared(['keys', ...args], environment)
  const wrong = await keys(['create', '--description', 'ERP', '--scopes', 'read,write'])
  expect(wrong).toMatchObject({ code: 2, stdout: '' })
  expect(wrong.stderr).toContain(
    'There is no scope "write". Choose from read, feed, sql, admin, watch, operate, calendar.',
  )
  const key = (
    await keys(['create', '--description', 'ERP', '--scopes', 'sql', '--max-rps', '7'])
  ).stdout.trim()
  const rotated = (await keys(['rotate', key.slice(0, 12), '--overlap', '0s'])).stdout.trim()
  const listed = JSON.parse((await keys(['list', '--json'])).stdout) as Record<string, unknown>[]
  expect(listed.find(({ prefix }) => prefix === rotated.slice(0, 12))).toMatchObject({
    scopes: ['sql'],
    maxRps: 7,
  })
  expect((await keys(['list'])).stdout).toContain('sql, 7/s')

  // As an earlier version left the file.
  const db = new DatabaseSync(join(environment.DATA_DIR as string, 'api_keys.sqlite'))
  db.exec('ALTER TABLE api_keys DROP COLUMN scopes; ALTER TABLE api_keys DROP COLUMN max_rps')
  db.close()
  const old = JSON.parse((await keys(['list', '--json'])).stdout) as Record<string, unknown>[]
  expect(old.map(({ scopes, maxRps }) => [scopes, maxRps])).toEqual([
    [['read', 'feed'], null],
    [['read', 'feed'], null],
  ])
  const made = (await keys(['create', '--description', 'CRM', '--scopes', 'admin'])).stdout.trim()
  const after = JSON.parse((await keys(['list', '--json'])).stdout) as Record<string, unknown>[]
  expect(after.find(({ prefix }) => prefix === made.slice(0, 12))).toMatchObject({ scopes: ['admin'] })
})
