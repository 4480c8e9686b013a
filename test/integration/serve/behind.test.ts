import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '#test/support/daemon.ts'
import { notices } from '#test/support/notices.ts'
import { companyDirectory } from '#test/support/project.ts'
import { serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

const MINUTE_MS = 60_000

test('a state that is known to be old is served with its age, and after a while refused', async () => {
  const { environment } = await startSynced(notices(1, 3))
  const since = new Date()
  let [passedMs, isBehind] = [0, true]
  const { ask, keys } = await serveApi(environment, {
    now: () => new Date(since.getTime() + passedMs),
    behindOthers: () => (isBehind ? { since, why: 'the store does not answer' } : null),
    maxBehindMs: 15 * MINUTE_MS,
  })
  const headers = { cookie: `editais_chave=${keys.acme}` }
  const paths = [
    '/api/v1/editais',
    '/api/v1/mirror/editais',
    '/api/v1/mirror/changes?since=latest',
    '/editais',
  ]
  const statuses = async () =>
    await Promise.all(paths.map(async path => (await ask(path, { headers })).status))
  await until(async () => (await statuses()).every(status => status === 200), { what: 'the snapshot' })
  const page = async () => (await ask('/editais', { headers })).body.toString()
  expect(await page()).toMatch(/há dados mais novos, que este servidor ainda não tem/)

  passedMs = 16 * MINUTE_MS
  expect(await statuses()).toEqual([503, 503, 503, 503])
  expect((await ask('/api/v1/editais')).headers['retry-after']).toBe('30')
  isBehind = false
  expect(await statuses()).toEqual([200, 200, 200, 200])
  expect(await page()).not.toContain('dados mais novos')
})

test('a snapshot that cannot be prepared counts as a newer state', async () => {
  const { environment, world, syncHere } = await startSynced(notices(1, 3))
  const { served, ask } = await serveApi(environment)
  await until(async () => (await ask('/api/v1/editais')).status === 200, { what: 'the snapshot' })
  const serving = join(companyDirectory(environment), 'mirror')
  // Nothing can be prepared in a file.
  await rename(serving, `${serving}-away`)
  await writeFile(serving, '')
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  await syncHere()
  await until(async () => served.behind('acme') !== null, { what: 'a snapshot that cannot be prepared' })
  expect(served.behind('acme')?.why).toMatch(/^the latest snapshot cannot be served: /)
  await rm(serving)
  await until(async () => served.behind('acme') === null, { what: 'the snapshot' })
})
