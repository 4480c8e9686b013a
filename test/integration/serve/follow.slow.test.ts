import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readdir, readlink } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { expect, test } from 'vitest'
import { startCompanies } from '#test/support/companies.ts'
import { noticeEntry } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'

const PATH = '/api/v1/editais'
const SOON = { timeout: 15_000 }

/** The prepared months that this process has open, as Linux shows them. */
async function monthsOpen(dataDir: string, company: string): Promise<number> {
  const files = await readdir('/proc/self/fd')
  const targets = await Promise.all(files.map(file => readlink(`/proc/self/fd/${file}`).catch(() => '')))
  return targets.filter(target => target.startsWith(`${dataDir}/${company}/mirror/`)).length
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

test('a company is kept open while it has a valid key, and reopened when it gets one', async () => {
  const companies = await startCompanies(['acme', 'beta'], slug =>
    Array.from({ length: 100 }, (_, index) =>
      noticeEntry(index + 1, { objeto: `of ${slug} ${'x'.repeat(60_000)}` }),
    ),
  )
  await companies.configure({ acme: {}, beta: {} })
  const { environment } = companies
  const dataDir = environment.DATA_DIR as string
  for (const slug of ['acme', 'beta']) await companies.company(slug).syncHere()
  let aheadMs = 0
  const now = () => new Date(Date.now() + aheadMs)
  const { url, keys, ask, store, served, lines } = await serveApi(environment, {
    companies: ['acme', 'beta'],
    now,
  })
  expect([...served.companies].sort()).toEqual(['acme', 'beta'])
  const seesFiles = existsSync('/proc/self/fd')
  if (seesFiles) expect(await monthsOpen(dataDir, 'beta')).toBeGreaterThan(0)

  // Several MB, most of it unread when the company is closed.
  const asked = request(`${url}${PATH}?limit=200`, { headers: { 'x-api-key': keys.beta as string } })
  asked.end()
  const [slow] = (await once(asked, 'response')) as [IncomingMessage]
  const until = new Date(now().getTime() + 3_600_000)
  const expiring = store.create('beta', 'expires', now(), until)
  const revoked = await runShared(['keys', 'revoke', keys.beta as string], environment)
  expect(revoked).toMatchObject({ code: 0 })
  // One of two valid keys is left.
  expect((await ask(PATH, { key: expiring })).status).toBe(200)
  aheadMs = 3_600_001
  await expect.poll(() => served.companies, SOON).toEqual(['acme'])
  expect(lines.filter(line => line.includes('No longer served'))).toEqual([
    expect.stringContaining('"company":"beta"'),
  ])
  if (seesFiles) await expect.poll(() => monthsOpen(dataDir, 'beta'), SOON).toBe(0)
  expect((await ask(PATH, { key: expiring })).status).toBe(401)
  expect((await ask(PATH)).status).toBe(200)
  expect(JSON.parse(await bodyOf(slow))).toMatchObject({ count: 100, total: 100 })

  // Before any request with the key.
  const fresh = store.create('beta', 'again', now())
  await expect.poll(() => [...served.companies].sort(), SOON).toEqual(['acme', 'beta'])
  await expect.poll(async () => (await ask(PATH, { key: fresh })).status, SOON).toBe(200)
  expect(lines.filter(line => line.includes('"level":"error"'))).toEqual([])
})
