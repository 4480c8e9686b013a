import { rename, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { leaveSnapshot, serveWorker, type Worker } from '#test/support/http.ts'
import { notices } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

async function text(worker: Worker, path: string, headers: Record<string, string> = BROWSER) {
  const response = await worker.ask(path, { headers })
  return { status: response.status, body: await response.text() }
}

test('browsers with the token get the report at /; other clients get the list of paths', async () => {
  const worker = await serveWorker({ companies: ['acme'] })
  await leaveSnapshot(worker.company('acme'))
  expect(await text(worker, '/')).toEqual({ status: 200, body: '<h1>acme</h1>' })
  expect(await text(worker, '/report')).toEqual({ status: 200, body: '<h1>acme</h1>' })
  expect(await text(worker, '/companies/acme/report')).toEqual({ status: 200, body: '<h1>acme</h1>' })

  const stranger = await fetch(worker.url, { headers: BROWSER })
  expect(stranger.status).toBe(401)
  expect(stranger.headers.get('www-authenticate')).toContain('Basic')
  for (const path of ['/report', '/companies/acme/report'])
    expect((await fetch(worker.url + path)).status).toBe(401)
  expect(await (await fetch(worker.url)).json()).toMatchObject({ 'GET /': expect.stringContaining('report') })

  const off = await serveWorker({ companies: ['acme'], adminToken: null })
  expect((await fetch(off.url, { headers: BROWSER })).status).toBe(403)
})

test('a browser without the token is led from / to the pages for people with an API key', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const { parts, keys } = await serveApi(environment)
  const worker = await serveWorker({
    companies: ['acme'],
    pages: { served: parts.served, entrance: parts.entrance },
  })
  await leaveSnapshot(worker.company('acme'))
  const stranger = await fetch(worker.url, { headers: BROWSER, redirect: 'manual' })
  expect([stranger.status, stranger.headers.get('location')]).toEqual([303, '/editais'])
  expect(stranger.headers.get('vary')).toBe('Accept, Authorization')
  const door = await fetch(`${worker.url}/editais`, { headers: BROWSER })
  expect(await door.text()).toContain('<a href="/report">')
  const cookie = `editais_chave=${keys.acme}`
  const page = await fetch(`${worker.url}/editais`, { headers: { ...BROWSER, cookie } })
  expect(page.status).toBe(200)
  // With the token, and for programs, it is what it was.
  expect(await text(worker, '/')).toEqual({ status: 200, body: '<h1>acme</h1>' })
  expect(await (await fetch(worker.url)).json()).toHaveProperty('GET /report')
})

test('with several companies it lists their reports; a company without a snapshot is reported as such', async () => {
  const worker = await serveWorker({ companies: ['acme', 'beta'] })
  const { status, body } = await text(worker, '/')
  expect(status).toBe(200)
  expect([...body.matchAll(/href="([^"]+)"/g)].map(([, href]) => href)).toEqual([
    ...['/companies/acme/report', '/companies/beta/report'],
  ])
  expect(await text(worker, '/companies/acme/report')).toMatchObject({
    status: 409,
    body: expect.stringContaining('acme has no snapshot yet'),
  })
  expect((await text(worker, '/companies/other/report')).status).toBe(404)
})

test('a report is made once per snapshot', async () => {
  let made = 0
  const worker = await serveWorker({ companies: ['acme'], report: async () => `${++made}` })
  const { paths } = worker.company('acme')
  await leaveSnapshot(worker.company('acme'))
  const bodies = await Promise.all([1, 2, 3].map(() => text(worker, '/')))
  expect(bodies.map(({ body }) => body)).toEqual(['1', '1', '1'])
  expect((await text(worker, '/')).body).toBe('1')
  await rename(join(paths.lake, 'latest'), join(paths.lake, 'other'))
  await symlink('other', join(paths.lake, 'latest'))
  expect((await text(worker, '/')).body).toBe('2')
})
