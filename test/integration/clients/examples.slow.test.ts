import { spawn } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, expect, onTestFinished, test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { type CuttingProxy, startCuttingProxy } from '#test/support/cutting_proxy.ts'
import { until } from '#test/support/daemon.ts'
import { CHANGES, type FeedAnswer } from '#test/support/feed.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { runProgram } from '#test/support/program.ts'
import { type Ended, surroundings, temporaryDirectory } from '#test/support/project.ts'
import { type ServedApi, serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'
import { findOnPath } from '#test/support/system_packages.ts'

const EXAMPLES = join(import.meta.dirname, '../../../docs/examples')
const EXPORT = '/api/v1/mirror/export.ndjson?what=both'
const FILTERS = ['uf=SP,RJ', 'q=aquisição', 'sort=value', 'limit=3']
const SEARCH = '/api/v1/mirror/editais?uf=SP,RJ&q=aquisi%C3%A7%C3%A3o&sort=value'
const python = await findOnPath(['python3'])
const curl = await findOnPath(['curl'])

type Page = { readonly editais: readonly object[]; readonly next: string | null }
type Served = {
  readonly api: ServedApi
  readonly proxy: CuttingProxy
  /** The directory that the examples run in. */
  readonly directory: string
  /** Runs an example behind the proxy. */
  run(program: string, example: string, ...args: readonly string[]): Promise<Ended>
  publish(number: number): Promise<void>
}

async function served(options: Parameters<typeof serveApi>[1] = {}): Promise<Served> {
  const world = generateWorld({ seed: '3', company: 'aurora', notices: 200, start: new Date('2026-11-20') })
  const company = await startSynced(world)
  const api = await serveApi(company.environment, options)
  const proxy = await startCuttingProxy(api.url)
  const directory = await temporaryDirectory()
  return {
    ...{ api, proxy, directory },
    async run(program, example, ...args) {
      const environment = { API_KEY: api.keys.acme as string }
      const given = [join(EXAMPLES, example), proxy.url, ...args]
      const ended = await runProgram(program, given, { cwd: directory, environment })
      expect(ended.stdout + ended.stderr).not.toContain(environment.API_KEY)
      return ended
    },
    async publish(number) {
      world.put(noticeEntry(number))
      await company.syncHere()
      await until(async () => (await api.ask(`/api/v1/editais/${idOf(number)}`)).status === 200, {
        what: 'the next snapshot',
      })
    },
  }
}

const OK = { code: 0, stderr: '' }
const parsed = (lines: string) =>
  lines
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))

/** Both examples that download have the same task; they differ in what they leave beside FILE. */
async function expectDownloads(
  { api, proxy, directory, publish }: Served,
  download: () => Promise<Ended>,
  leaveUnfinished: (bytes: Buffer, of: { etag: string; size: number }) => Promise<void>,
): Promise<void> {
  const file = join(directory, 'editais.ndjson')
  const expectWhole = async (ended: Ended, what: Buffer) => {
    expect([ended.code, ended.stderr]).toEqual([0, expect.any(String)])
    expect((await readFile(file)).equals(what)).toBe(true)
    expect(await readdir(directory)).toEqual(['editais.ndjson'])
  }
  const { body, headers } = await api.ask(EXPORT)
  proxy.cutAfter(40_000, 300_000)
  await expectWhole(await download(), body)
  expect(proxy.left()).toBe(0)
  const sent = () => api.lines.flatMap(line => [...line.matchAll(/"status":206,"bytes":(\d+)/g)]).length
  // Stopped earlier, at the end, too; and the latest version is another one by now.
  await publish(1)
  const before = sent()
  for (const bytes of [body.subarray(0, 1000), body]) {
    await leaveUnfinished(bytes, { etag: headers.etag as string, size: body.length })
    await expectWhole(await download(), body)
  }
  expect(sent()).toBeGreaterThan(before)
  // Of a version that is gone, or before anything was received.
  const { body: latest } = await api.ask(EXPORT)
  expect(latest.equals(body)).toBe(false)
  for (const bytes of [Buffer.from('{"of":"another version"}\n'), Buffer.alloc(0)]) {
    await leaveUnfinished(bytes, { etag: '"gone"', size: 7000 })
    await expectWhole(await download(), latest)
  }
}

describe.skipIf(python === null)('In Python (skipped without python3)', () => {
  test('search.py prints the notices of all pages, and waits if the key sends too many requests', async () => {
    const { api, run } = await served({ maxRps: 2 })
    const found = await api.json<Page>(`${SEARCH}&limit=200`)
    const ended = await run(python as string, 'search.py', ...FILTERS)
    expect(ended).toMatchObject(OK)
    expect(parsed(ended.stdout)).toEqual(found.editais)
    expect(found.editais.length).toBeGreaterThan(6)
    expect(api.lines.some(line => line.includes('"status":429'))).toBe(true)
    const wrong = await run(python as string, 'search.py', 'uf=S')
    expect(wrong).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('uf: must be states'),
    })
  })

  test('export.py downloads everything, also after lost connections and another start', async () => {
    const context = await served()
    await expectDownloads(
      context,
      () => context.run(python as string, 'export.py', 'editais.ndjson'),
      async (bytes, { etag }) => {
        await writeFile(join(context.directory, 'editais.ndjson.part'), bytes)
        await writeFile(join(context.directory, 'editais.ndjson.etag'), etag)
      },
    )
    const key = context.api.keys.acme as string
    context.api.store.revoke(key.slice(0, 12), new Date())
    const refused = await context.run(python as string, 'export.py', 'x')
    expect(refused).toMatchObject({ code: 1, stderr: '401: {"error":"unauthorized"}\n' })
  })
})

/** In place of a Postgres, which `npm run test:engines` has: it prints what it is asked to store. */
const STAND_IN_FOR_PSYCOPG = `
import contextlib, json
class Database:
    def execute(self, sql, values=()):
        if sql.startswith(("INSERT", "UPDATE")): print(json.dumps(values), flush=True)
        return self
    def fetchone(self): return [None]
    def transaction(self): return contextlib.nullcontext()
    def __enter__(self): return self
    def __exit__(self, *_): return False
def connect(*_, **__): return Database()
`

describe.skipIf(python === null)('In Python (skipped without python3), whatever the server answers', () => {
  /** Runs an example until its output has a line that is expected. */
  async function runUntil(
    isExpected: (line: string) => boolean,
    example: string,
    args: string[],
    key: string,
  ) {
    const directory = await temporaryDirectory()
    await writeFile(join(directory, 'psycopg.py'), STAND_IN_FOR_PSYCOPG)
    const running = spawn(python as string, [join(EXAMPLES, example), ...args], {
      cwd: directory,
      env: { ...surroundings(), API_KEY: key, PYTHONPATH: directory, PYTHONUNBUFFERED: '1' },
    })
    onTestFinished(() => void running.kill('SIGKILL'))
    const lines: string[] = []
    await new Promise<void>(resolve => {
      running.on('close', resolve)
      for (const input of [running.stdout, running.stderr])
        createInterface({ input }).on('line', line => {
          lines.push(line)
          if (isExpected(line)) resolve()
        })
    })
    return lines
  }

  test('feed_to_postgres.py waits if its key may send few requests, instead of beginning anew', async () => {
    const { environment } = await startSynced(notices(1, 5))
    const api = await serveApi(environment, { maxRps: 4 })
    const { next } = await api.json<FeedAnswer>(`${CHANGES}?since=latest`)
    const args = [api.url, 'postgresql://nowhere']
    const lines = await runUntil(
      line => line.includes(next) || line.includes('429'),
      'feed_to_postgres.py',
      args,
      api.keys.acme as string,
    )
    const stored = lines.slice(0, -1).map(line => JSON.parse(line)[0])
    expect(stored.sort()).toEqual([1, 2, 3, 4, 5].map(idOf))
    expect(JSON.parse(lines.at(-1) as string)).toEqual([next])
  })

  test('feed_to_postgres.py replaces what Postgres cannot hold in a text, and nothing else', async () => {
    const overview = { 'a\0': ['\0', { b: 'c\0\0d' }], literal: '\\u0000', emoji: '😀', none: null, n: 1.5 }
    const { environment } = await startSynced([noticeEntry(1, { objeto: 'um\0dois' }, { overview })])
    const api = await serveApi(environment)
    const [line = ''] = await runUntil(
      one => one.includes(idOf(1)),
      'feed_to_postgres.py',
      [api.url, 'postgresql://nowhere'],
      api.keys.acme as string,
    )
    const [id, notice, analysis] = JSON.parse(line)
    expect(id).toBe(idOf(1))
    expect(JSON.parse(notice)).toMatchObject({ objeto: 'um\uFFFDdois' })
    expect(JSON.parse(analysis).overview).toEqual({
      ...overview,
      'a\0': undefined,
      'a\uFFFD': ['\uFFFD', { b: 'c\uFFFD\uFFFDd' }],
    })
  })

  test.each([
    ['search.py', ['uf=SP']],
    ['export.py', ['editais.ndjson']],
    ['feed_to_postgres.py', ['postgresql://nowhere']],
  ])('%s sends the key to no other server', async (example, args) => {
    const asked: string[] = []
    const other = createServer((request, response) => {
      asked.push(request.url ?? '')
      response.end('{}')
    })
    const first = createServer((_, response) => {
      const { port } = other.address() as AddressInfo
      response.writeHead(302, { location: `http://127.0.0.1:${port}/` }).end('{}')
    })
    for (const server of [other, first]) {
      await new Promise<void>(resolve => void server.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => void server.close())
    }
    const url = `http://127.0.0.1:${(first.address() as AddressInfo).port}`
    const lines = await runUntil(line => line.includes('302'), example, [url, ...args], 'edk_1')
    expect(lines.join()).toContain('302')
    expect(asked).toEqual([])
  })
})

describe.skipIf(curl === null)('With curl (skipped without it)', () => {
  test('curl.sh checks the key, searches, and reads the list only if it changed', async () => {
    const { api, run, publish, directory } = await served()
    const task = (...args: string[]) => run('/bin/sh', 'curl.sh', ...args)
    const check = await task('check')
    expect(check).toMatchObject(OK)
    expect(JSON.parse(check.stdout)).toEqual(await api.json('/api/v1/mirror'))

    const pages = await task('search', ...FILTERS)
    expect(pages).toMatchObject(OK)
    const found: Page[] = parsed(pages.stdout)
    expect(found.flatMap(({ editais }) => editais)).toEqual(
      (await api.json<Page>(`${SEARCH}&limit=200`)).editais,
    )
    expect(found.map(({ next }) => next !== null)).toEqual([...found.slice(1).map(() => true), false])
    expect(found.length).toBeGreaterThan(2)

    const list = async () => (await api.ask('/api/v1/editais?limit=200')).body.toString()
    const stored = () => readFile(join(directory, 'list.json'), 'utf8')
    expect(await task('notices', 'list.json')).toEqual({ ...OK, stdout: '200\n' })
    expect(await task('notices', 'list.json')).toEqual({ ...OK, stdout: '304\n' })
    expect(await stored()).toBe(await list())
    await publish(1)
    expect(await task('notices', 'list.json')).toEqual({ ...OK, stdout: '200\n' })
    expect(await stored()).toBe(await list())
  })

  test('curl.sh follows the feed from a cursor in a file', async () => {
    const { api, run, publish, directory } = await served()
    const task = (...args: string[]) => run('/bin/sh', 'curl.sh', ...args)
    const first: FeedAnswer = await api.json(`${CHANGES}?since=latest`)
    expect(parsed((await task('changes', 'cursor')).stdout)).toEqual([first])
    await publish(1)
    const answer = await api.json<FeedAnswer>(`${CHANGES}?since=${first.next}`)
    expect(answer.events.length).toBeGreaterThan(1)
    expect(parsed((await task('changes', 'cursor')).stdout)).toEqual([answer])
    // More than one page.
    const all = await api.json<FeedAnswer>(`${CHANGES}?limit=1`)
    await writeFile(join(directory, 'cursor'), all.next)
    const pages: FeedAnswer[] = parsed((await task('changes', 'cursor')).stdout)
    expect(pages.length).toBeGreaterThan(1)
    const events = (await api.json<FeedAnswer>(`${CHANGES}?limit=1000`)).events.slice(1)
    expect(pages.flatMap(page => page.events).map(({ edital_id }) => edital_id)).toEqual(
      events.map(({ edital_id }) => edital_id),
    )
    const cursor = `${all.next.slice(0, -7)}AAAAAAA`
    await writeFile(join(directory, 'cursor'), cursor)
    const gone = await task('changes', 'cursor')
    expect(gone).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('"cursor_gone"') })
    expect(await readFile(join(directory, 'cursor'), 'utf8')).toBe(cursor)
  })

  test('curl.sh downloads everything, also after lost connections and another start', async () => {
    const context = await served()
    await expectDownloads(
      context,
      () => context.run('/bin/sh', 'curl.sh', 'export', 'editais.ndjson'),
      async (bytes, { etag, size }) => {
        const head = `HTTP/1.1 200 OK\netag: ${etag}\ncontent-length: ${size}\n`
        await writeFile(join(context.directory, 'editais.ndjson.part'), bytes)
        await writeFile(join(context.directory, 'editais.ndjson.head'), head)
      },
    )
  })

  test('curl.sh shows why it was refused, and what it can do', async () => {
    const { api, run } = await served()
    const task = (...args: string[]) => run('/bin/sh', 'curl.sh', ...args)
    const wrong = await task('search', 'uf=S')
    expect(wrong).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('uf: must be states'),
    })
    api.store.revoke((api.keys.acme as string).slice(0, 12), new Date())
    for (const args of [['check'], ['changes', 'x'], ['export', 'x'], ['notices', 'x']])
      expect([args, await task(...args)]).toMatchObject([args, { stderr: expect.stringContaining('401') }])
    expect(await task('help')).toMatchObject({ code: 2, stderr: expect.stringContaining('search FILTER...') })
  })
})
