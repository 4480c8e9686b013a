import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { until } from '#test/support/daemon.ts'
import { bareNotice, idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { type ServedApi, serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

const EXPORT = '/api/v1/mirror/export.ndjson'
type What = 'notices' | 'analyses' | 'both'
const pathOf = (what: What) => `${EXPORT}?what=${what}`

/** What an export must be, from the API of the contract: its documents, byte for byte. */
async function expectedLines(api: ServedApi, what: What): Promise<string[]> {
  const { editais } = await api.json<{ editais: { id: string }[] }>('/api/v1/editais?limit=200')
  const lines: string[] = []
  for (const { id } of editais) {
    const notice = (await api.ask(`/api/v1/editais/${id}`)).body.toString()
    const found = await api.ask(`/api/v1/editais/${id}/analysis`)
    const analysis = found.status === 200 ? found.body.toString() : null
    if (what === 'notices') lines.push(notice)
    else if (what === 'both') lines.push(`{"edital":${notice},"analysis":${analysis}}`)
    else if (analysis) lines.push(analysis)
  }
  return lines
}

async function publishOneMore(
  { world, syncHere }: Awaited<ReturnType<typeof startSynced>>,
  api: ServedApi,
  number: number,
): Promise<void> {
  world.put(noticeEntry(number))
  await syncHere()
  const path = `/api/v1/editais/${idOf(number)}`
  await until(async () => (await api.ask(path)).status === 200, { what: 'the next snapshot' })
}

test('an export has the documents of the contract, one a line, newest notice first', async () => {
  const world = generateWorld({ seed: '3', company: 'aurora', notices: 40, start: new Date('2026-11-20') })
  const api = await serveApi((await startSynced(world)).environment)
  for (const what of ['notices', 'analyses', 'both'] as const) {
    const lines = await expectedLines(api, what)
    const { status, headers, body } = await api.ask(pathOf(what))
    expect(status).toBe(200)
    expect(body.toString()).toBe(lines.map(line => `${line}\n`).join(''))
    expect(headers).toMatchObject({
      'content-type': 'application/x-ndjson',
      'content-length': String(body.length),
      'accept-ranges': 'bytes',
      etag: expect.stringMatching(/^"[\w-]+"$/),
    })
    const head = await api.ask(pathOf(what), { method: 'HEAD' })
    expect(head.body).toHaveLength(0)
    expect(head.headers).toMatchObject({ etag: headers.etag, 'content-length': String(body.length) })
    const known = { headers: { 'if-none-match': headers.etag as string } }
    expect(await api.ask(pathOf(what), known)).toMatchObject({ status: 304, body: Buffer.alloc(0) })
    for (const [encoding, unpack] of [
      ['gzip', gunzipSync],
      ['zstd', zstdDecompressSync],
    ] as const) {
      const packed = await api.ask(pathOf(what), { headers: { 'accept-encoding': encoding } })
      expect(packed.headers['content-encoding']).toBe(encoding)
      expect(packed.headers.etag).not.toBe(headers.etag)
      expect(unpack(packed.body).equals(body)).toBe(true)
    }
  }
})

test('notices without an analysis have null in both, and no line in analyses', async () => {
  const { environment } = await startSynced(
    [noticeEntry(1), bareNotice(2, { status: 'discarded' }), noticeEntry(4)],
    { ANALYSIS_STATUSES: 'analysis' },
  )
  const api = await serveApi(environment)
  const both = (await api.ask(pathOf('both'))).body.toString().trim().split('\n')
  const isThere = both
    .map(line => JSON.parse(line))
    .map(({ edital, analysis }) => [edital.id, analysis !== null])
  expect(isThere).toEqual([
    [idOf(1), true],
    [idOf(4), true],
    [idOf(2), false],
  ])
  expect((await api.ask(pathOf('analyses'))).body.toString().split('\n')).toHaveLength(3)
})

test('an empty company has an empty export', async () => {
  const company = await startSynced(notices(1, 1))
  company.world.remove(idOf(1))
  await company.syncHere()
  const api = await serveApi(company.environment)
  for (const headers of [{}, { 'accept-encoding': 'gzip' }]) {
    const empty = await api.ask(pathOf('both'), { headers })
    expect(empty).toMatchObject({ status: 200, body: Buffer.alloc(0) })
    expect(empty.headers['content-encoding']).toBeUndefined()
  }
  expect(await api.ask(pathOf('both'), { headers: { range: 'bytes=0-' } })).toMatchObject({ status: 416 })
})

test('Range is for GET alone, and If-Range for a Range', async () => {
  const company = await startSynced(notices(1, 2))
  const api = await serveApi(company.environment)
  const range = { range: 'bytes=0-0' }
  expect((await api.ask(pathOf('both'), { method: 'HEAD', headers: range })).status).toBe(200)
  const { headers } = await api.ask(pathOf('both'))
  await publishOneMore(company, api, 3)
  const now = await api.ask(pathOf('both'), { headers: { 'if-range': String(headers.etag) } })
  expect(now.body.toString()).toContain(idOf(3))
  const compressed = await api.ask(pathOf('both'), { headers: { 'accept-encoding': 'gzip' } })
  expect(compressed.headers['accept-ranges']).toBeUndefined()
})

test('ranges are pieces of the same bytes, wherever they begin and end', async () => {
  const world = generateWorld({ seed: '5', company: 'aurora', notices: 200, start: new Date('2026-11-20') })
  const api = await serveApi((await startSynced(world)).environment)
  for (const what of ['notices', 'analyses', 'both'] as const) {
    const { body: whole, headers } = await api.ask(pathOf(what))
    const size = whole.length
    const check = async (range: string, from: number, to: number) => {
      const part = await api.ask(pathOf(what), {
        headers: { range: `bytes=${range}`, 'if-range': headers.etag as string, 'accept-encoding': 'gzip' },
      })
      expect(part.headers).toMatchObject({
        'content-range': `bytes ${from}-${to - 1}/${size}`,
        'content-length': String(to - from),
        etag: headers.etag,
      })
      expect(part.status).toBe(206)
      expect(part.body.equals(whole.subarray(from, to))).toBe(true)
    }
    const byte = fc.integer({ min: 0, max: size - 1 })
    await fc.assert(
      fc.asyncProperty(byte, byte, async (one, other) => {
        const [from, last] = [Math.min(one, other), Math.max(one, other)]
        await check(`${from}-${last}`, from, last + 1)
      }),
      {
        seed: 21,
        numRuns: 10,
        examples: [
          [0, 0],
          [0, size - 1],
          [size - 1, size - 1],
        ],
      },
    )
    await check(`${size - 10}-`, size - 10, size)
    await check('-10', size - 10, size)
    await check(`-${size * 2}`, 0, size)
    await check(`5-${size * 2}`, 5, size)
    for (const range of [`bytes=${size}-`, 'bytes=-0']) {
      const none = await api.ask(pathOf(what), { headers: { range } })
      expect(none).toMatchObject({ status: 416, headers: { 'content-range': `bytes */${size}` } })
    }
    // What a server may ignore.
    for (const range of [
      'bytes=0-1,5-6',
      'lines=0-1',
      'bytes=9-5',
      'bytes=',
      'x',
      `bytes=${'9'.repeat(40)}-`,
    ]) {
      const all = await api.ask(pathOf(what), { headers: { range } })
      expect([range, all.status, all.body.length]).toEqual([range, 200, size])
    }
  }
})

test('a download is resumed in its snapshot after others were published; without it, it begins anew', async () => {
  const company = await startSynced(notices(1, 30))
  const api = await serveApi(company.environment)
  const { body: whole, headers } = await api.ask(pathOf('both'))
  await publishOneMore(company, api, 40)
  const resume = { headers: { range: 'bytes=1000-', 'if-range': headers.etag as string } }
  const rest = await api.ask(pathOf('both'), resume)
  expect(rest).toMatchObject({ status: 206, headers: { 'x-data-as-of': headers['x-data-as-of'] } })
  expect(rest.body.equals(whole.subarray(1000))).toBe(true)
  const current = await api.ask(pathOf('both'))
  expect(current.headers.etag).not.toBe(headers.etag)
  await api.close()

  const restarted = await serveApi(company.environment)
  expect(await restarted.ask(pathOf('both'), resume)).toMatchObject({
    status: 200,
    headers: { etag: current.headers.etag },
    body: current.body,
  })
})

test('an export says what it can export', async () => {
  const api = await serveApi((await startSynced(notices(1, 1))).environment)
  const { status, body } = await api.ask(`${EXPORT}?what=all`)
  expect(status).toBe(400)
  expect(JSON.parse(body.toString())).toEqual({
    error: 'invalid_parameter',
    detail: 'what: must be one of notices, analyses, both.',
  })
})
