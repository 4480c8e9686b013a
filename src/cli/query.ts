import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { environmentOf, readCompanies } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { counted } from '#src/platform/count.ts'
import { EXIT, FatalError } from '#src/platform/errors.ts'
import { companyPaths } from '#src/store/company.ts'
import { askFenced, failed, fence } from '#src/store/lake/fence.ts'
import { filesOf, openSnapshot, openSnapshots, sourceOf } from '#src/store/lake/read.ts'
import type { Answer, Database } from '#src/store/warehouse/database.ts'
import { jsonValue, renderCsv, renderTable } from './table.ts'

/** More is of no use in a terminal; `--csv` and `--json` print all rows. */
const MAX_TABLE_ROWS = 200

type Options = { company?: string; all?: true; csv?: true; json?: true; allowFiles?: true }

export function queryCommand(environment: Environment): Command {
  return new Command('query')
    .description('Query the latest snapshot in SQL.')
    .argument('<sql>', 'for example "SELECT status, count(*) FROM editais GROUP BY ALL"')
    .option('--company <slug>', 'company to query, instead of COMPANY')
    .option('--all', 'query the latest snapshots of all configured companies together')
    .option('--csv', 'print CSV')
    .option('--json', 'print a JSON array of objects')
    .option(
      '--allow-files',
      'let the SQL read and write every file that you can, load extensions and change settings; only for SQL that you trust',
    )
    .action(async (sql: string, options: Options) => {
      if (options.csv && options.json) throw new FatalError('Use --csv or --json, not both.', EXIT.usage)
      if (options.all && options.company) {
        throw new FatalError('Use --all or --company, not both.', EXIT.usage)
      }
      const { columns, rows } = await answer(environment, sql, options)
      if (options.json) process.stdout.write(`${JSON.stringify(rows, jsonValue)}\n`)
      else if (options.csv) process.stdout.write(renderCsv(columns, rows))
      else
        process.stdout.write(
          `${renderTable(columns, rows.slice(0, MAX_TABLE_ROWS))}${rowCount(rows.length)}\n`,
        )
    })
}

async function answer(environment: Environment, sql: string, options: Options): Promise<Answer> {
  // A directory of its own: DuckDB spills there what does not fit into memory, and the SQL may use it.
  const temporary = await mkdtemp(join(tmpdir(), 'editais-sync-query-'))
  try {
    const { db, files } = await openFor(environment, options, temporary)
    try {
      if (options.allowFiles) return await db.table(sql).catch(error => Promise.reject(failed(error)))
      await fence(db, files)
      return await askFenced(db, sql)
    } finally {
      db.close()
    }
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

/** Returns the database and the files that its views read. */
async function openFor(
  environment: Environment,
  { all, company }: Options,
  temporary: string,
): Promise<{ db: Database; files: string[] }> {
  if (all) {
    const { db, sources } = await openSnapshots(await lakesOf(environment), temporary)
    return { db, files: sources.flatMap(filesOf) }
  }
  const settings = readSettings(await environmentOf(environment, company))
  const { db, manifest } = await openSnapshot(
    companyPaths(settings.dataDir, settings.company).lake,
    temporary,
  )
  return { db, files: filesOf(sourceOf(manifest)) }
}

/** The lakes of all configured companies. */
export async function lakesOf(environment: Environment): Promise<string[]> {
  const { environments, places } = await readCompanies(environment)
  // A mistake in a company's entry does not affect what it has published: sums must include it.
  return [...environments.values(), ...places.values()].map(own => {
    const { dataDir, company } = readSettings(own)
    return companyPaths(dataDir, company).lake
  })
}

function rowCount(rows: number): string {
  if (rows <= MAX_TABLE_ROWS) return counted(rows, 'row')
  return `${MAX_TABLE_ROWS} of ${counted(rows, 'row')}; --csv and --json print all`
}
