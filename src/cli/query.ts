import { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { companyPaths } from '#src/company.ts'
import { EXIT, FatalError, messageOf } from '#src/errors.ts'
import { openSnapshot } from '#src/lake/read.ts'
import { jsonValue, renderCsv, renderTable } from './table.ts'

/** A terminal is no place for more; `--csv` and `--json` give all. */
const MAX_TABLE_ROWS = 200

type Options = { company?: string; csv?: true; json?: true }

export function queryCommand(environment: Environment): Command {
  return new Command('query')
    .description('Ask the latest snapshot a question in SQL.')
    .argument('<sql>', 'for example "SELECT status, count(*) FROM editais GROUP BY ALL"')
    .option('--company <slug>', 'company to ask about, instead of COMPANY')
    .option('--csv', 'print CSV')
    .option('--json', 'print a JSON array of objects')
    .action(async (sql: string, options: Options) => {
      if (options.csv && options.json) throw new FatalError('Give --csv or --json, not both.', EXIT.usage)
      const own = await environmentOf(environment, options.company)
      const settings = readSettings(own)
      const { db } = await openSnapshot(companyPaths(settings.dataDir, settings.company).lake)
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

function rowCount(rows: number): string {
  if (rows <= MAX_TABLE_ROWS) return rows === 1 ? '1 row' : `${rows} rows`
  return `${MAX_TABLE_ROWS} of ${rows} rows; --csv and --json print all`
}
