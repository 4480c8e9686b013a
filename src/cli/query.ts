import { rmSync } from 'node:fs'
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Command } from 'commander'
import { environmentOf, readCompanies } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { EXIT, FatalError, messageOf, systemCode } from '#src/platform/errors.ts'
import { companyPaths } from '#src/store/company.ts'
import { askFenced, askFreely, type ForeignSql, fence } from '#src/store/lake/fence.ts'
import { filesOf, openSnapshot, openSnapshots, sourceOf } from '#src/store/lake/read.ts'
import type { Database, Stream } from '#src/store/warehouse/database.ts'
import { printCsv, printJson, printTable } from './query_output.ts'

type Options = {
  company?: string
  all?: true
  csv?: true
  json?: true
  file?: string
  allowFiles?: true
}

export function queryCommand(environment: Environment): Command {
  return new Command('query')
    .description('Query the latest snapshot in SQL.')
    .argument('[sql]', 'for example "SELECT status, count(*) FROM editais GROUP BY ALL"')
    .option('--file <path>', 'read the SQL from a file, or from standard input if the path is -')
    .option('--company <slug>', 'company to query, instead of COMPANY')
    .option('--all', 'query the latest snapshots of all configured companies together')
    .option('--csv', 'print CSV')
    .option('--json', 'print a JSON array of objects')
    .option(
      '--allow-files',
      'let the SQL read and write every file that you can, load extensions and change settings; only for SQL that you trust',
    )
    .action(async (sql: string | undefined, options: Options) => {
      if (options.csv && options.json) throw new FatalError('Use --csv or --json, not both.', EXIT.usage)
      if (options.all && options.company) {
        throw new FatalError('Use --all or --company, not both.', EXIT.usage)
      }
      const print = options.json ? printJson : options.csv ? printCsv : printTable
      await answer(environment, await sqlOf(sql, options), options, print)
    })
}

/** @throws FatalError if there is no SQL, or both an argument and a file. */
async function sqlOf(argument: string | undefined, { file }: Options): Promise<ForeignSql> {
  if (argument !== undefined && file !== undefined) {
    throw new FatalError('Use SQL or --file, not both.', EXIT.usage)
  }
  const sql =
    file === undefined
      ? { text: argument ?? '', file: null }
      : { text: await textOf(file), file: file === '-' ? 'standard input' : file }
  if (sql.text.trim() !== '') return sql
  throw new FatalError(
    `There is no SQL${sql.file ? ` in ${sql.file}` : ''}. Try: npm run query -- "SELECT count(*) FROM editais"`,
    EXIT.usage,
  )
}

async function textOf(file: string): Promise<string> {
  if (file === '-') return await text(process.stdin)
  return await readFile(file, 'utf8').catch(error => {
    throw new FatalError(`${file} cannot be read: ${systemCode(error) ?? messageOf(error)}.`, EXIT.usage)
  })
}

async function answer(
  environment: Environment,
  sql: ForeignSql,
  options: Options,
  print: (answer: Stream) => Promise<void>,
): Promise<void> {
  // A directory of its own: DuckDB spills there what does not fit into memory, and the SQL may use it.
  const temporary = await mkdtemp(join(tmpdir(), 'editais-sync-query-'))
  const remove = () => rmSync(temporary, { recursive: true, force: true })
  // A reader that closes the pipe ends the process at once.
  process.once('exit', remove)
  try {
    const { db, files } = await openFor(environment, options, temporary)
    try {
      if (!options.allowFiles) await fence(db, files)
      await print(await (options.allowFiles ? askFreely(db, sql) : askFenced(db, sql)))
    } finally {
      db.close()
    }
  } finally {
    process.off('exit', remove)
    remove()
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
