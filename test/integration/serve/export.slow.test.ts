import { Agent, request } from 'node:http'
import { zstdDecompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { until } from '#test/support/daemon.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { type ServedApi, serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

const ANALYSES = '/api/v1/mirror/export.ndjson?what=analyses'

/** Notices with analyses of a megabyte: more than a connection holds, so a client can be in the middle of them. */
function largeNotices() {
  const title = 'Requisito do edital '.repeat(50)
  const requirements = Array.from({ length: 1000 }, () => ({ category: 'outros', title, status: 'green' }))
  return Array.from({ length: 24 }, (_, index) => noticeEntry(index + 1, {}, { requirements }))
}

/** A download that is read only as far as it is asked to be. */
function begin(api: ServedApi, path: string, headers: Readonly<Record<string, string>> = {}) {
  return new Promise<{
    readonly status: number
    readonly headers: Readonly<Record<string, string | string[] | undefined>>
    rest(): Promise<Buffer>
    kill(): void
  }>((resolve, reject) => {
    const asked = request(
      `${api.url}${path}`,
      { agent: new Agent(), headers: { 'x-api-key': api.keys.acme as string, ...headers } },
      response => {
        response.pause()
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          rest: async () => Buffer.concat(await response.toArray()),
          kill: () => asked.destroy(),
        })
      },
    )
    asked.on('error', reject)
    asked.end()
  })
}

test('a download under way ends with its own snapshot, and a killed one leaves nothing behind', async () => {
  const company = await startSynced(largeNotices())
  const api = await serveApi(company.environment)
  const { body: whole } = await api.ask(ANALYSES)
  const killed = await begin(api, ANALYSES)
  const compressed = await begin(api, ANALYSES, { 'accept-encoding': 'zstd' })
  const slow = await begin(api, ANALYSES)
  company.world.put(noticeEntry(40))
  await company.syncHere()
  const added = `/api/v1/editais/${idOf(40)}`
  await until(async () => (await api.ask(added)).status === 200, { what: 'the next snapshot' })
  killed.kill()
  expect((await slow.rest()).equals(whole)).toBe(true)
  expect(zstdDecompressSync(await compressed.rest()).equals(whole)).toBe(true)
  await until(() => api.lines.some(line => line.includes('"aborted":true')), {
    what: 'the end of the killed one',
  })
  const failed = api.lines.filter(line => line.includes('"level":"error"'))
  expect(failed).toEqual([])
  expect((await api.ask(ANALYSES)).status).toBe(200)
})

test('a client that reads a large analysis slowly holds up no other export, and gets it whole', async () => {
  const title = 'Requisito do edital '.repeat(50)
  const requirements = Array.from({ length: 25_000 }, () => ({ category: 'outros', title, status: 'green' }))
  const company = await startSynced([noticeEntry(1, {}, { requirements }), noticeEntry(2)])
  const api = await serveApi(company.environment)
  const { body: whole } = await api.ask(ANALYSES)
  expect(whole.length).toBeGreaterThan(25_000_000)
  const both = (await api.ask(ANALYSES.replace('analyses', 'both'))).body.toString().trimEnd().split('\n')
  const analyses = whole.toString().trimEnd().split('\n')
  expect(both.map(line => JSON.stringify(JSON.parse(line).analysis))).toEqual(
    analyses.map(line => JSON.stringify(JSON.parse(line))),
  )
  const slow = await Promise.all([1, 2, 3, 4].map(() => begin(api, ANALYSES)))
  const key = api.store.create('acme', 'BI', new Date())
  for (const what of ['notices', 'analyses', 'both'])
    expect((await api.ask(ANALYSES.replace('analyses', what), { key })).status).toBe(200)
  for (const one of await Promise.all(slow.map(({ rest }) => rest()))) expect(one.equals(whole)).toBe(true)
  // Wherever a range begins and ends in it.
  for (const [from, to] of [
    [0, 1],
    [262_143, 262_145],
    [12_345_678, whole.length - 1],
  ] as const) {
    const part = await api.ask(ANALYSES, { headers: { range: `bytes=${from}-${to}` } })
    expect([part.status, part.body.equals(whole.subarray(from, to + 1))]).toEqual([206, true])
  }
})

test('a download ends, unfinished, when its key is revoked', async () => {
  const { environment } = await startSynced(largeNotices())
  const api = await serveApi(environment)
  const download = await begin(api, ANALYSES)
  api.store.revoke(String(api.keys.acme).slice(0, 12), new Date())
  await expect(download.rest()).rejects.toThrow()
})

test('a key has at most four downloads under way, and another key has its own', async () => {
  const { environment } = await startSynced(largeNotices())
  const api = await serveApi(environment)
  const four = await Promise.all([1, 2, 3, 4].map(() => begin(api, ANALYSES)))
  const fifth = await api.ask(ANALYSES)
  expect(fifth).toMatchObject({ status: 429, headers: { 'retry-after': '10' } })
  expect(JSON.parse(fifth.body.toString())).toEqual({
    error: 'too_many_requests',
    detail: 'This key has 4 downloads under way. Begin another when one has ended.',
  })
  const key = api.store.create('acme', 'BI', new Date())
  expect((await api.ask(ANALYSES, { key })).status).toBe(200)
  four[0]?.kill()
  await until(async () => (await api.ask(ANALYSES)).status === 200, { what: 'a free place' })
  const rests = await Promise.all(four.slice(1).map(one => one.rest()))
  expect(new Set(rests.map(({ length }) => length)).size).toBe(1)
})
