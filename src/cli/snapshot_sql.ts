import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { environmentOf, readCompanies } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { listFiles, openSnapshot, openSnapshots, openWithOurMarts, sourceOf } from '#src/core/lake/read.ts'
import type { Database, Stream } from '#src/core/warehouse/database.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { askFenced, askFreely, type ForeignSql, fence } from '#src/present/sql/fence.ts'
import { printCsv, printJson, printTable } from './query_output.ts'

/** The options of the commands that ask the latest snapshot. */

export type SnapshotOptions = {
  readonly company?: string
  readonly all?: true
  readonly csv?: true
  readonly json?: true
  readonly allowFiles?: true
}

/** The version of the marts: the one that the snapshot was published with, or this program's. */
type Marts = 'published' | 'ours'

export type SnapshotQuery = {
  readonly db: Database
  readonly ask: (sql: ForeignSql) => Promise<Stream>
}

/** Chooses how to print answers. @throws FatalError (usage) for options that exclude each other. */
export function printerFor({ csv, json, all, company }: SnapshotOptions): (answer: Stream) => Promise<void> {
  if (csv && json) throw new FatalError('Use --csv or --json, not both.', EXIT.usage)
  if (all && company) throw new FatalError('Use --all or --company, not both.', EXIT.usage)
  return json ? printJson : csv ? printCsv : printTable
}

/** Opens the latest snapshot, or with `all` those of all companies, behind the fence unless `allowFiles` is set. */
export async function withOpenSnapshot(
  environment: Environment,
  options: SnapshotOptions,
  use: (asked: SnapshotQuery) => Promise<void>,
  marts: Marts = 'published',
): Promise<void> {
  // A directory of its own: DuckDB spills there what does not fit into memory, and the SQL may use it.
  const temporary = await mkdtemp(join(tmpdir(), 'editais-sync-query-'))
  const remove = () => rmSync(temporary, { recursive: true, force: true })
  // A reader that closes the pipe ends the process at once.
  process.once('exit', remove)
  try {
    const { db, sources } = await openFor(environment, options, { temporary, marts })
    try {
      if (!options.allowFiles) await fence(db, sources.flatMap(listFiles))
      await use({ db, ask: sql => (options.allowFiles ? askFreely(db, sql) : askFenced(db, sql)) })
    } finally {
      db.close()
    }
  } finally {
    process.off('exit', remove)
    remove()
  }
}

async function openFor(
  environment: Environment,
  { all, company }: SnapshotOptions,
  { temporary, marts }: { readonly temporary: string; readonly marts: Marts },
) {
  if (all) return await openSnapshots(await lakesOf(environment), temporary)
  const settings = readSettings(await environmentOf(environment, company))
  const { lake } = companyPaths(settings.dataDir, settings.company)
  if (marts === 'ours') return await openWithOurMarts(lake, temporary)
  const { db, manifest } = await openSnapshot(lake, temporary)
  return { db, sources: [sourceOf(manifest)] }
}

/** Returns the lakes of all configured companies. */
export async function lakesOf(environment: Environment): Promise<string[]> {
  const { environments, places, problem, warnings } = await readCompanies(environment)
  for (const line of problem === null ? warnings : [problem, ...warnings]) process.stderr.write(`${line}\n`)
  // A mistake in a company's entry does not affect what it has published: sums must include it.
  return [...environments.values(), ...places.values()].map(own => {
    const { dataDir, company } = readSettings(own)
    return companyPaths(dataDir, company).lake
  })
}
