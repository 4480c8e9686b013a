import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { importsOf, loadedWith, readSources, type SourceFile } from '#tools/imports.ts'

const ROOT = join(import.meta.dirname, '../..')

type Layer = { readonly at: string; readonly reason: string; readonly alone?: true }

/**
 * The lowest first: a layer may import itself and the ones above it in this list. The reason is why it may not import
 * those below. A file belongs to the longest name that its path begins with; `alone` imports no other layer at all.
 * `docs/internals/layers.md` draws it.
 */
const LAYERS: readonly Layer[] = [
  {
    at: 'schema',
    alone: true,
    reason: 'schema defines the data, and knows no code that uses it',
  },
  {
    at: 'src/lib',
    alone: true,
    reason: 'lib would serve any program, and knows nothing of notices',
  },
  {
    at: 'src/deadlines',
    alone: true,
    reason: 'deadlines are read from a text alone, and know nothing of where it is stored',
  },
  { at: 'config', reason: 'config reads settings, and knows nothing of who follows them' },
  {
    at: 'src/server/contract',
    reason: 'contract answers requests as the API does, and does not know where the answers come from',
  },
  {
    at: 'src/core/api',
    reason: 'api sends requests, and does not know how the answers are used',
  },
  {
    at: 'src/core/rawlog',
    reason: 'the raw log is the source of truth, and knows nothing of what is made of it',
  },
  { at: 'src/core/company', reason: 'what all stores share knows nothing of what is in each' },
  {
    at: 'src/core/warehouse',
    reason: 'the warehouse is what snapshots are made of, and knows nothing of them',
  },
  { at: 'src/core/lake', reason: 'the lake knows nothing of who fills or presents it' },
  {
    at: 'src/core/pipeline',
    reason: 'a step of the pipeline knows nothing of the steps around it, nor who takes it',
  },
  { at: 'src/sync.ts', reason: 'the sync knows nothing of who starts it, nor who looks at what it brought' },
  { at: 'src/marts', reason: 'marts are figures above the tables, and know nothing of who shows them' },
  { at: 'src/present', reason: 'present has the words and forms that several show, and knows none of those' },
  { at: 'src/extras', reason: 'an extra adds to the core, and knows nothing of the programs that have it' },
  { at: 'src/extras.ts', reason: 'the list of extras knows nothing of the programs that have them' },
  { at: 'src/operate', reason: 'operate knows nothing of who gives the orders, nor of made-up companies' },
  { at: 'src/server', reason: 'the server reads what was published, and starts no run' },
  { at: 'src/sandbox', reason: 'the sandbox is a company of its own, and knows nothing of who mirrors it' },
  { at: 'jobs', reason: 'the daemon calls what commands call, and knows nothing of the command line' },
  { at: 'src/cli', reason: 'a command knows nothing of who starts it, nor of what measures and tests it' },
  { at: 'src/cli/start.ts', reason: 'the program is whole without what measures and tests it' },
  {
    at: 'clients/typescript/src',
    alone: true,
    reason: 'a client is published alone, and knows the API from its description',
  },
  { at: 'clients', reason: 'clients are made from the descriptions of the API, and nothing needs them' },
  { at: 'tools', reason: 'what benchmarks and tests share is part of neither' },
  { at: 'bench', reason: 'what is measured is the program, and no test of it' },
  { at: 'test', reason: 'tests may import all' },
]

/** Neighbours that do not import each other. */
const STRANGERS: readonly { readonly among: readonly string[]; readonly reason: string }[] = [
  {
    among: ['src/core/api', 'src/server/contract'],
    reason: 'who asks and who answers share the contract and no code, so that each proves the other',
  },
  {
    among: ['jobs', 'src/cli'],
    reason: 'the daemon and the commands know nothing of each other: start.ts brings them together',
  },
]

const EXTRAS = 'src/extras'
const ONE_LIST = 'an extra can be taken away, so only the list in src/extras.ts knows it'

/** Returns whether a file of the product imports an extra that is not its own, past the list. */
function isPastTheList(file: string, path: string): boolean {
  const [extra] = new RegExp(`^${EXTRAS}/[^/]+(?=/)`).exec(path) ?? []
  return extra !== undefined && /^(src|jobs)\//.test(file) && file !== 'src/extras.ts' && !isIn(file, extra)
}

function isIn(path: string, place: string): boolean {
  return path === place || path.startsWith(`${place}/`)
}

/** In the place itself, and not in a layer within it. */
function isOf(path: string, place: string): boolean {
  const inner = LAYERS.some(({ at }) => at !== place && isIn(at, place) && isIn(path, at))
  return isIn(path, place) && !inner
}

/** -1 for what is in no layer, such as package.json. */
function layerOf(path: string): number {
  const longest = LAYERS.filter(({ at }) => isIn(path, at)).sort((a, b) => b.at.length - a.at.length)[0]
  return longest ? LAYERS.indexOf(longest) : -1
}

/** Each import of a file that its layer must not have, with the reason. */
function wrongImports({ path: file, text }: SourceFile): string[] {
  const from = layerOf(file)
  const layer = LAYERS[from]
  return [...new Set(importsOf({ path: file, text }))].flatMap(path => {
    const to = layerOf(path)
    const strange = STRANGERS.find(({ among }) => {
      const [own, other] = [among.find(place => isOf(file, place)), among.find(place => isOf(path, place))]
      return own !== undefined && other !== undefined && own !== other
    })
    const isUpward = to > from || (layer?.alone && to !== -1 && to !== from)
    const past = isPastTheList(file, path) ? ONE_LIST : undefined
    const reason = strange?.reason ?? past ?? (isUpward ? layer?.reason : undefined)
    return reason === undefined ? [] : [`${file} imports ${path}: ${reason}`]
  })
}

const SOURCES = readSources([
  '{schema,src,config,jobs,tools,bench,test}/**/*.ts',
  'clients/*.ts',
  'clients/typescript/*.ts',
  'clients/typescript/src/*.ts',
])
const FILES = SOURCES.map(({ path }) => path)

describe('Imports', () => {
  it('run in one direction', () => {
    expect(SOURCES.flatMap(wrongImports)).toEqual([])
    expect(FILES.filter(file => layerOf(file) === -1)).toEqual([])
    expect(SOURCES.flatMap(importsOf).length).toBeGreaterThan(FILES.length)
  })

  it('of zod are in one file of the schema: commands that only read tables start without it', () => {
    const schema = SOURCES.filter(({ path }) => path.startsWith('schema/'))
    const withZod = schema.filter(({ text }) => / from 'zod'/.test(text))
    expect(withZod.map(({ path }) => path)).toEqual(['schema/zod.ts'])
    expect(schema.filter(file => importsOf(file).includes('schema/zod.ts'))).toEqual([])
  })

  it('of a sync reach its own steps and what they store, and nothing that hosts, readers or operators add', () => {
    const byPath = new Map(SOURCES.map(file => [file.path, file]))
    const reached = new Set(['src/sync.ts'])
    for (const path of reached)
      for (const next of importsOf(byPath.get(path) as SourceFile)) if (byPath.has(next)) reached.add(next)
    expect(reached.size).toBeGreaterThan(70)
    const own = ['schema', 'config', 'src/lib', 'src/deadlines', 'src/core', 'src/sync.ts']
    expect([...reached].filter(path => !own.some(place => isIn(path, place)))).toEqual([])
    // And the core is no more, besides how others read its snapshots, and the description of the API.
    const core = FILES.filter(path => ['schema', 'src/core'].some(place => isIn(path, place)))
    const others = ['schema/openapi.ts', 'src/core/lake/read.ts']
    expect(core.filter(path => !reached.has(path))).toEqual(others)
  })

  it('of what runs all day load no library at the start that only some requests or runs need', () => {
    const byPath = new Map(SOURCES.map(file => [file.path, file]))
    const heavy =
      /^(?:@duckdb|@orama|@aws-sdk|@modelcontextprotocol\/server|echarts|hucre|nodemailer|@opentelemetry\/(?!api))/
    for (const start of ['jobs/daemon.ts', 'src/cli/serve.ts']) {
      const loaded = [...loadedWith(start, byPath)]
      expect(loaded.length, start).toBeGreaterThan(100)
      expect(loaded, start).toContain('pino')
      expect(
        loaded.filter(name => heavy.test(name)),
        start,
      ).toEqual([])
    }
  })

  it('come from layers that are there', () => {
    expect(LAYERS.filter((_, index) => !FILES.some(file => layerOf(file) === index))).toEqual([])
    const strangers = STRANGERS.flatMap(({ among }) => among)
    expect(strangers.filter(place => !FILES.some(file => isIn(file, place)))).toEqual([])
  })

  it('are drawn as they are', () => {
    const drawn = readFileSync(join(ROOT, 'docs/internals/layers.svg'), 'utf8').matchAll(
      /class="layer"[^>]*>([^<]*)</g,
    )
    expect([...drawn].map(([, name]) => name).reverse()).toEqual(LAYERS.map(({ at }) => at))
  })
})

describe('A wrong import is named with its reason', () => {
  it.each([
    ['src/core/lake/publish.ts', '#src/extras/report/report.ts', ONE_LIST],
    [
      'src/core/rawlog/files.ts',
      '../lake/read.ts',
      'the raw log is the source of truth, and knows nothing of what is made of it',
    ],
    [
      'src/core/company/state.ts',
      '../warehouse/sql.ts',
      'what all stores share knows nothing of what is in each',
    ],
    ['src/core/lake/catalog.ts', '#src/marts/marts.ts', 'the lake knows nothing of who fills or presents it'],
    ['src/lib/log.ts', '#schema/notice.ts', 'lib would serve any program, and knows nothing of notices'],
    [
      'jobs/main.ts',
      '../src/cli/sync.ts',
      'the daemon and the commands know nothing of each other: start.ts brings them together',
    ],
    [
      'src/cli/sync.ts',
      '#jobs/enqueue.ts',
      'the daemon and the commands know nothing of each other: start.ts brings them together',
    ],
    ['bench/main.ts', '#test/support/redis.ts', 'what is measured is the program, and no test of it'],
    [
      'src/core/api/transport.ts',
      '#src/server/contract/answers.ts',
      'who asks and who answers share the contract and no code, so that each proves the other',
    ],
    ['src/extras/shared_log/log.ts', '../object_store/vacuum.ts', ONE_LIST],
    ['jobs/looks.ts', '#src/extras/metabase/follow.ts', ONE_LIST],
    [
      'src/extras/report/page.ts',
      '#src/extras.ts',
      'an extra adds to the core, and knows nothing of the programs that have it',
    ],
  ])('%s', (file, name, reason) => {
    const path = importsOf({ path: file, text: `import '${name}'` })[0]
    expect(FILES).toContain(path)
    const forms = [
      `import { one } from '${name}'`,
      `import {\n  one,\n} from '${name}'`,
      `import type { One } from '${name}'`,
      `export { one } from '${name}'`,
      `await import('${name}')`,
      `type One = import('${name}').One`,
    ]
    for (const form of forms)
      expect(wrongImports({ path: file, text: form })).toEqual([`${file} imports ${path}: ${reason}`])
  })

  it('also where it is a file that is run or read, but not where it is allowed', () => {
    expect(
      wrongImports({ path: 'jobs/process.ts', text: "join(import.meta.dirname, '../src/cli/sync.ts')" }),
    ).toHaveLength(1)
    expect(
      wrongImports({ path: 'src/lib/x.ts', text: "new URL('../core/company/state.ts', import.meta.url)" }),
    ).toHaveLength(1)
    expect(wrongImports({ path: 'jobs/x.ts', text: "import.meta.resolve('#src/cli/sync.ts')" })).toHaveLength(
      1,
    )
    const allowed = [
      "import '#config/lake.ts'",
      "import '../company/company.ts'",
      "import '../rawlog/line.ts'",
      "import 'zod'",
    ]
    expect(wrongImports({ path: 'src/core/warehouse/x.ts', text: allowed.join('\n') })).toEqual([])
  })
})

it('no SQL has a window over all rows, on which DuckDB 1.5.5 now and then fails (duckdb/duckdb#25713)', () => {
  const all = globSync(['{schema,src,jobs,config}/**/*.{ts,sql}'], { cwd: ROOT })
  expect(all.length).toBeGreaterThan(100)
  const wrong = all.filter(file => /\bOVER\s*\(\s*\)/i.test(readFileSync(join(ROOT, file), 'utf8')))
  expect(wrong).toEqual([])
})
