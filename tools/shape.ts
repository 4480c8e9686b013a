import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { endWithReader } from '#src/lib/exit.ts'
import { renderTable } from '#src/present/terminal/table.ts'
import { ALL, exportedNames, importedNames, importsOf, readSources, type SourceFile } from './imports.ts'
import { explainedSettings } from './settings_page.ts'

const ROOT = join(import.meta.dirname, '..')
const PRODUCT = ['src', 'jobs', 'schema', 'config']
/** The files that a newcomer must read. */
const CORE = ['schema', 'src/sync.ts', 'src/core']

/** A size of the project, which must not grow: to exceed it, raise its limit here, with the reason. */
export type Measure = {
  readonly name: string
  readonly count: number
  readonly limit: number
  /** The value to reach. */
  readonly goal: number
  /** The things that are counted, if they can be named. */
  readonly found?: readonly string[]
}

/** Counts lines, files, settings and repeated ideas of the project as it is on the disk. */
export function measureShape(): Measure[] {
  const product = readSources(patterns(PRODUCT, 'ts')).filter(({ path }) => !path.endsWith('.d.ts'))
  const users = readSources([...patterns(['test', 'bench', 'tools', 'clients'], 'ts'), 'src/**/*.js'])
  const settings = [...explainedSettings().keys()].sort()
  const pairs = mutualPairs(product)
  const twice = namesUsedTwice(product)
  const unused = unusedExports(product, users)
  const nouns = functionsNamedOf(product)
  return [
    // The last reasons to raise a limit. 66,600 until functions were verbs, with longer names; 66,840 until the mail named what changed, a
    // changed object was shown from where it did, a run wrote complete months while it fetched, a snapshot while its warehouse
    // became durable, and the report had the red requirements of a week before; 67,148 until it had the alerts, too, and links to our own
    // pages, a workbook printed what can still be acted on, and price bands were stored once a day; 67,339 until a long run became durable on its
    // way, corrections and sessions that moved earlier were marts of their own, *Hoje* had the report's period, and sheets had links; 67,728 until
    // every list linked to its notices, Metabase hid technical tables and took old cards off, and charts had their message as title.
    { name: 'lines of src, jobs, schema, config', count: linesIn(PRODUCT), limit: 67_823, goal: 48_000 },
    // 11,345 until a run wrote complete months while it fetched; 11,521 until marts were stored once a day; 11,538 until a long run became
    // durable on its way.
    { name: 'lines of the core', count: linesIn(CORE), limit: 11_604, goal: 12_000 },
    // 64,851 until months that were written early were compared with a warehouse that wrote none, and a test read every cell of the workbook; 65,369
    // until it read cards, report, mails, answers and pages, too; 65,667 until it read CSV files and downloads, and the model had sums with a
    // ceiling, those two marts and republished notices; 66,079 until a test computed legends and printed pages.
    { name: 'lines of test', count: linesIn(['test']), limit: 66_286, goal: 46_000 },
    { name: 'lines of bench', count: linesIn(['bench']), limit: 4_980, goal: 5_000 },
    // 436 until three more expressions of marts had a name; 439 until another three had, two marts and a card were added, and report, mail and
    // pages shared what to decide, and how old a reading is; 448 until lists of requirements and alerts named their notice alike,
    // and Metabase set today apart.
    { name: 'files of src, jobs, schema, config', count: filesIn(PRODUCT).length, limit: 450, goal: 300 },
    { name: 'settings', count: settings.length, limit: 70, goal: 70, found: settings },
    {
      name: 'pairs of folders that import each other',
      count: pairs.length,
      limit: 0,
      goal: 0,
      found: pairs,
    },
    { name: 'exported names with two meanings', count: twice.length, limit: 0, goal: 0, found: twice },
    { name: 'exports that no other file imports', count: unused.length, limit: 0, goal: 0, found: unused },
    { name: 'functions named like a noun (…Of)', count: nouns.length, limit: 0, goal: 0, found: nouns },
  ]
}

/** The files that people write: TypeScript, JavaScript, SQL, YAML. */
const WRITTEN = '{ts,js,mjs,sql,yaml,css}'

function patterns(places: readonly string[], endings: string): string[] {
  return places.map(place => (/\.\w+$/.test(place) ? place : `${place}/**/*.${endings}`))
}

function filesIn(places: readonly string[]): string[] {
  return [...new Set(globSync(patterns(places, WRITTEN), { cwd: ROOT }))]
    .filter(path => !path.includes('node_modules/'))
    .sort()
}

function linesIn(places: readonly string[]): number {
  const lines = filesIn(places).map(path => readFileSync(join(ROOT, path), 'utf8').split('\n').length - 1)
  return lines.reduce((sum, count) => sum + count, 0)
}

function mutualPairs(files: readonly SourceFile[]): string[] {
  const known = new Set(files.map(({ path }) => path))
  const edges = new Set(
    files.flatMap(file =>
      importsOf(file)
        .filter(path => known.has(path) && dirname(path) !== dirname(file.path))
        .map(path => `${dirname(file.path)} ${dirname(path)}`),
    ),
  )
  return [...edges]
    .map(edge => edge.split(' ') as [string, string])
    .filter(([from, to]) => from < to && edges.has(`${to} ${from}`))
    .map(([from, to]) => `${from} and ${to}`)
    .sort()
}

/** Lists the names that are exported twice, with the files that export them. */
function namesUsedTwice(files: readonly SourceFile[]): string[] {
  const exported = files.flatMap(file => exportedNames(file).map(name => ({ name, path: file.path })))
  return [...Map.groupBy(exported, ({ name }) => name)]
    .filter(([, all]) => all.length > 1)
    .map(([name, all]) => `${name} (${all.map(({ path }) => path).join(', ')})`)
    .sort()
}

function unusedExports(files: readonly SourceFile[], users: readonly SourceFile[]): string[] {
  const used = new Set([...files, ...users].flatMap(importedNames))
  return files
    .flatMap(file => exportedNames(file).map(name => ({ name, path: file.path })))
    .filter(({ name, path }) => !used.has(`${path} ${name}`) && !used.has(`${path} ${ALL}`))
    .map(({ name, path }) => `${name} (${path})`)
    .sort()
}

/** Lists functions with names such as `placeOf`: such a name says what they return, not what they do to get it. */
function functionsNamedOf(files: readonly SourceFile[]): string[] {
  const form = /\bfunction\*? (\w+Of)\b|\bconst (\w+Of) = (?:async )?(?:\(|\w+ =>)/g
  return files.flatMap(({ path, text }) =>
    [...text.matchAll(form)].map(([, declared, assigned]) => `${declared ?? assigned} (${path})`),
  )
}

/** Maximum number of counted things that are named. */
const NAMED_UP_TO = 100

if (import.meta.main) {
  endWithReader()
  const measures = measureShape()
  const rows = measures.map(({ name, count, limit, goal }) => ({ size: name, now: count, limit, goal }))
  process.stdout.write(renderTable(['size', 'now', 'limit', 'goal'], rows))
  for (const { name, count, goal, found = [] } of measures)
    if (count > goal && found.length > 0 && found.length <= NAMED_UP_TO)
      process.stdout.write(`\n${name}:\n${found.map(one => `  ${one}\n`).join('')}`)
  if (measures.some(({ count, limit }) => count > limit)) process.exitCode = 1
}
