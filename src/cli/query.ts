import { Command } from 'commander'
import { environmentOf, readCompanies } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { companyPaths } from '#src/company.ts'
import { EXIT, FatalError, messageOf } from '#src/errors.ts'
import { openSnapshot, openSnapshots } from '#src/lake/read.ts'
import type { Database } from '#src/warehouse/database.ts'
import { jsonValue, renderCsv, renderTable } from './table.ts'

/** A terminal is no place for more; `--csv` and `--json` give all. */
const MAX_TABLE_ROWS = 200

type Options = { company?: string; all?: true; csv?: true; json?: true }

export function queryCommand(environment: Environment): Command {
  return new Command('query')
    .description('Ask the latest snapshot a question in SQL.')
    .argument('<sql>', 'for example "SELECT status, count(*) FROM editais GROUP BY ALL"')
    .option('--company <slug>', 'company to ask about, instead of COMPANY')
    .option('--all', 'ask the latest snapshots of all configured companies at once')
    .option('--csv', 'print CSV')
    .option('--json', 'print a JSON array of objects')
    .action(async (sql: string, options: Options) => {
      if (options.csv && options.json) throw new FatalError('Give --csv or --json, not both.', EXIT.usage)
      if (options.all && options.company) {
        throw new FatalError('Give --all or --company, not both.', EXIT.usage)
      }
      const db = await openFor(environment, options)
      try {
        const { columns, rows } = await db.table(sql).catch(error => {
          throw new FatalError(`The query failed: ${messageOf(error)}`, EXIT.failed)
        })
        if (options.json) process.stdout.write(`${JSON.stringify(rows, jsonValue)}\n`)
        else if (options.csv) process.stdout.write(renderCsv(columns, rows))
        else
          process.stdout.write(
            `${renderTable(columns, rows.slice(0, MAX_TABLE_ROWS))}${rowCount(rows.length)}\n`,
          )
      } finally {
        db.close()
      }
    })
}

async function openFor(environment: Environment, { all, company }: Options): Promise<Database> {
  if (all) return await openSnapshots(await lakesOf(environment))
  const settings = readSettings(await environmentOf(environment, company))
  return (await openSnapshot(companyPaths(settings.dataDir, settings.company).lake)).db
}

/** Of all companies that are configured. */
export async function lakesOf(environment: Environment): Promise<string[]> {
  const { environments } = await readCompanies(environment)
  return [...environments.values()].map(own => {
    const { dataDir, company } = readSettings(own)
    return companyPaths(dataDir, company).lake
  })
}

function rowCount(rows: number): string {
  if (rows <= MAX_TABLE_ROWS) return rows === 1 ? '1 row' : `${rows} rows`
  return `${MAX_TABLE_ROWS} of ${rows} rows; --csv and --json print all`
}
