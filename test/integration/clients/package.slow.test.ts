import { copyFile, cp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { projectWithClient } from '#test/support/client_package.ts'
import { startCuttingProxy } from '#test/support/cutting_proxy.ts'
import { until } from '#test/support/daemon.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { runProgram } from '#test/support/program.ts'
import type { Environment } from '#test/support/project.ts'
import { type ServedApi, serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

const ROOT = join(import.meta.dirname, '../../..')
const PACKAGE = join(ROOT, 'clients/typescript')
const EXAMPLE = join(ROOT, 'docs/examples/feed_to_sqlite.ts')
/** That of this project, and the oldest generation that users may have. */
const COMPILERS = ['node_modules/typescript/bin/tsc', 'clients/typescript/node_modules/typescript/bin/tsc']
const EXPORT = '/api/v1/mirror/export.ndjson?what=both'

type Analysis = {
  readonly requirements?: readonly object[]
  readonly verdict?: { readonly recommendation?: string }
}
type Line = { readonly edital: { readonly id: string }; readonly analysis: Analysis | null }

/** What compilers find wrong with a file of a project, with or without Node's types. */
async function errorsIn(project: string, file: string, types: readonly string[]): Promise<string> {
  const compilerOptions = {
    ...{ target: 'es2022', module: 'nodenext', noEmit: true, strict: true, exactOptionalPropertyTypes: true },
    ...{ lib: ['es2022', 'dom', 'dom.asynciterable'], types, typeRoots: [join(ROOT, 'node_modules/@types')] },
    // Of this package, all is checked; those of Node are not its own.
    skipLibCheck: types.length > 0,
  }
  const config = JSON.stringify({ compilerOptions, files: [file] })
  await writeFile(join(project, 'tsconfig.json'), config)
  const checks = COMPILERS.map(tsc =>
    runProgram(process.execPath, [join(ROOT, tsc), '--pretty', 'false', '--project', project], {
      cwd: project,
    }),
  )
  return (await Promise.all(checks)).map(({ stdout, stderr }) => stdout + stderr).join('')
}

async function linesOf(api: ServedApi): Promise<Line[]> {
  const { body } = await api.ask(EXPORT)
  return body
    .toString()
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
}

async function served() {
  const world = generateWorld({ seed: '3', company: 'aurora', notices: 40, start: new Date('2026-11-20') })
  const company = await startSynced(world)
  return { company, api: await serveApi(company.environment) }
}

const keyOf = (api: ServedApi): Environment => ({ API_KEY: api.keys.acme as string, EDITAIS_URL: api.url })

test('the package has modules, their types and a manual, and imports nothing', async () => {
  const installed = join(await projectWithClient(), 'node_modules/@editais-sync/client')
  const { dependencies, exports, sideEffects } = JSON.parse(
    await readFile(join(installed, 'package.json'), 'utf8'),
  )
  expect([dependencies, sideEffects]).toEqual([undefined, false])
  expect((await readdir(installed)).sort()).toEqual(['README.md', 'dist', 'package.json'])
  const files = await readdir(join(installed, 'dist'), { recursive: true })
  for (const path of Object.values<string>(exports['.'])) expect(files).toContain(path.replace('./dist/', ''))
  const modules = files.filter(file => /\.(js|d\.ts)$/.test(file))
  expect(modules.length).toBeGreaterThan(20)
  for (const module of modules) {
    const text = await readFile(join(installed, 'dist', module), 'utf8')
    const imported = [...text.matchAll(/\b(?:from|import)\s*\(?['"]([^'"]+)/g)].map(([, name = '']) => name)
    expect([module, imported.filter(name => !/^\.\.?\/.*\.js$/.test(name))]).toEqual([module, []])
  }
})

test('right calls compile, and each wrong one does not', async () => {
  const project = await projectWithClient()
  const path = join(project, 'calls.ts')
  await copyFile(join(PACKAGE, 'test/calls.ts'), path)
  expect(await errorsIn(project, path, [])).toBe('')
  // Each of the expected errors is really expected: of a right call, it is missing.
  const text = await readFile(path, 'utf8')
  await writeFile(path, text.replace("'/api/v1/notices'", "'/api/v1/editais'"))
  expect(await errorsIn(project, path, [])).toMatch(
    /(calls\.ts.*Unused '@ts-expect-error' directive\.\s*){2}/,
  )
})

test('the manual is a program that compiles, and prints what is served', async () => {
  const { api } = await served()
  const project = await projectWithClient()
  const manual = await readFile(join(PACKAGE, 'README.md'), 'utf8')
  const snippets = [...manual.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, code]) => code)
  expect(snippets.length).toBeGreaterThan(6)
  const path = join(project, 'manual.ts')
  await writeFile(path, snippets.join('\n'))
  expect(await errorsIn(project, path, ['node'])).toBe('')

  const run = { cwd: project, environment: keyOf(api) }
  const { code, stdout, stderr } = await runProgram(process.execPath, [path], run)
  expect([code, stderr]).toEqual([0, ''])
  const { as_of } = await api.json<{ as_of: string }>('/api/v1/mirror')
  const lines = await linesOf(api)
  type Notices = { editais: { id: string; valor_estimado?: number }[] }
  const some = await api.json<Notices>('/api/v1/editais?status=analysis,pricing&limit=2')
  const found = await api.json<Notices>('/api/v1/mirror/editais?q=aquisi%C3%A7%C3%A3o&sort=-value')
  const { events } = await api.json<{ events: Record<string, string>[] }>('/api/v1/mirror/changes')
  const analysisOf = (id: string) => lines.find(({ edital }) => edital.id === id)?.analysis
  expect(found.editais.length).toBeGreaterThan(2)
  expect(stdout.trimEnd().split('\n')).toEqual([
    `acme, as of ${as_of}`,
    ...some.editais.map(({ id }) => `${id} ${analysisOf(id)?.requirements?.length}`),
    'unchanged',
    ...found.editais.map(({ id, valor_estimado }) => `${id} ${valor_estimado}`),
    ...lines.map(({ edital, analysis }) => `${edital.id} ${analysis?.verdict?.recommendation}`),
    ...events.map(({ edital_id, kind }) => `${edital_id} ${kind}`),
    '404 not_found true',
  ])
})

test('docs/examples/feed_to_sqlite.ts compiles, and keeps a file in step, killed, cut off and with another log', async () => {
  const { company, api } = await served()
  const project = await projectWithClient()
  await cp(EXAMPLE, join(project, 'example.ts'))
  expect(await errorsIn(project, join(project, 'example.ts'), ['node'])).toBe('')

  const proxy = await startCuttingProxy(api.url)
  const file = join(project, 'editais.sqlite')
  const start = () => {
    const kill = new AbortController()
    const run = { cwd: project, environment: keyOf(api), signal: kill.signal }
    const ended = runProgram(process.execPath, [join(project, 'example.ts'), proxy.url, file], run)
    return { kill: () => kill.abort(), ended }
  }
  const stored = () => {
    const db = new DatabaseSync(file, { readOnly: true, timeout: 5000 })
    const rows = db.prepare('SELECT document FROM editais').all()
    db.close()
    return rows.map(({ document }) => JSON.parse(String(document)) as Line).sort(byId)
  }
  const byId = (a: Line, b: Line) => (a.edital.id < b.edital.id ? -1 : 1)
  const untilInStep = async (ended: Promise<{ stderr: string }>) => {
    const expected = JSON.stringify((await linesOf(api)).sort(byId))
    const died = ended.then(({ stderr }) => Promise.reject(new Error(`it ended: ${stderr}`)))
    const inStep = until(
      () => {
        try {
          return JSON.stringify(stored()) === expected
        } catch {
          return false
        }
      },
      { what: 'the same documents in SQLite', withinMs: 20_000 },
    )
    await Promise.race([inStep, died])
  }
  const change = async (number: number) => {
    const [gone = ''] = company.world.ids()
    company.world.put(noticeEntry(number))
    company.world.remove(gone)
    await company.syncHere({ allowMassDelete: true })
    await until(async () => (await api.ask(`/api/v1/editais/${idOf(number)}`)).status === 200, {
      what: 'the next snapshot',
    })
  }

  // A query that holds the file, until the example has had time to meet it.
  const whileQueried = async (work: () => Promise<void>, ended: Promise<{ stderr: string }>) => {
    const db = new DatabaseSync(file, { timeout: 5000 })
    db.exec('BEGIN')
    db.prepare('SELECT count(*) FROM editais').get()
    await work()
    const died = ended.then(({ stderr }) => Promise.reject(new Error(`it ended: ${stderr}`)))
    await Promise.race([setTimeout(1000), died])
    db.exec('COMMIT')
    db.close()
  }

  // In the middle of the first export.
  proxy.cutAfter(60_000)
  const first = start()
  await untilInStep(first.ended)
  expect(proxy.left()).toBe(0)
  await whileQueried(() => change(1), first.ended)
  await untilInStep(first.ended)
  proxy.cut()
  await change(2)
  await untilInStep(first.ended)
  first.kill()
  await first.ended
  await change(3)
  const second = start()
  await untilInStep(second.ended)
  second.kill()
  await second.ended
  const db = new DatabaseSync(file)
  const { cursor } = db.prepare('SELECT cursor FROM feed').get() as { cursor: string }
  db.prepare('UPDATE feed SET cursor = ?').run(`${cursor.slice(0, -7)}AAAAAAA`)
  db.exec('DELETE FROM editais')
  db.close()
  const third = start()
  await untilInStep(third.ended)
  third.kill()
  await third.ended
})
