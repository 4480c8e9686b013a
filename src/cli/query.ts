import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { Command } from 'commander'
import type { Environment } from '#config/settings.ts'
import { EXIT, FatalError, messageOf, systemCode } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'
import type { ForeignSql } from '#src/present/sql/fence.ts'
import { printerFor, type SnapshotOptions, withOpenSnapshot } from './snapshot_sql.ts'

type Options = SnapshotOptions & { readonly file?: string }

export function queryCommand(environment: Environment): Command {
  return new Command('query')
    .description('Query the latest snapshot in SQL. Without SQL, on a terminal: a prompt.')
    .argument('[sql]', 'SQL such as "SELECT count(*) FROM editais", or a table or mart for all its rows')
    .option('--file <path>', 'read the SQL from a file, or from standard input if the path is -')
    .option('--company <slug>', 'company to query, instead of COMPANY')
    .option('--all', 'query the latest snapshots of all configured companies together')
    .option('--csv', 'print CSV')
    .option('--json', 'print a JSON array of objects')
    .option(
      '--allow-files',
      'let the SQL read and write every file that you can, load extensions and change settings; only for SQL that you trust',
    )
    .action(async (argument: string | undefined, options: Options) => {
      const print = printerFor(options)
      const isPrompt = argument === undefined && options.file === undefined && isTerminal(options)
      if (isPrompt) {
        const { prompt } = await import('./prompt.ts')
        return await withOpenSnapshot(environment, options, prompt)
      }
      const sql = await sqlOf(argument, options)
      await withOpenSnapshot(environment, options, async ({ ask }) => await print(await ask(sql)))
    })
}

/** Returns whether a person can type and read. */
function isTerminal({ csv, json }: Options): boolean {
  return process.stdin.isTTY === true && process.stdout.isTTY === true && !csv && !json
}

/** Returns the SQL to run. @throws FatalError if there is no SQL, or both an argument and a file. */
async function sqlOf(argument: string | undefined, { file }: Options): Promise<ForeignSql> {
  if (argument !== undefined && file !== undefined) {
    throw new FatalError('Use SQL or --file, not both.', EXIT.usage)
  }
  const sql =
    file === undefined
      ? { text: (argument ?? '').replace(/^\s*(\w+)[\s;]*$/, 'FROM $1'), file: null }
      : { text: await textOf(file), file: file === '-' ? 'standard input' : file }
  if (sql.text.trim() !== '') return sql
  throw new FatalError(
    `There is no SQL${sql.file ? ` in ${sql.file}` : ''}. Try: editais query "SELECT count(*) FROM editais"`,
    EXIT.usage,
  )
}

async function textOf(file: string): Promise<string> {
  const name = file === '-' ? 'Standard input' : file
  try {
    return decodeText(file === '-' ? await buffer(process.stdin) : await readFile(file))
  } catch (error) {
    throw new FatalError(`${name} cannot be read: ${systemCode(error) ?? messageOf(error)}.`, EXIT.usage)
  }
}
