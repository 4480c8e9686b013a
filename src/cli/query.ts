import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { Command } from 'commander'
import { findCompaniesFile } from '#config/companies.ts'
import type { Environment } from '#config/settings.ts'
import { cleanText } from '#schema/text_key.ts'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'
import { type Question, readQuestions, sqlFor } from '#src/present/questions.ts'
import type { ForeignSql } from '#src/present/sql/fence.ts'
import { choosePrinter, printInPortuguese, type SnapshotOptions, withOpenSnapshot } from './snapshot_sql.ts'

type Options = SnapshotOptions & { readonly file?: string }

export function createQueryCommand(environment: Environment): Command {
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
      const print = choosePrinter(options)
      const isPrompt = argument === undefined && options.file === undefined && isTerminal(options)
      if (isPrompt) {
        const { prompt } = await import('./prompt.ts')
        return await withOpenSnapshot(environment, options, prompt)
      }
      const sql = await readSql(argument, options)
      await withOpenSnapshot(environment, options, async ({ ask }) => await print(await ask(sql)))
    })
}

/** Returns whether a person can type and read. */
function isTerminal({ csv, json }: Options): boolean {
  return process.stdin.isTTY === true && process.stdout.isTTY === true && !csv && !json
}

/** Returns the SQL to run. @throws FatalError if there is no SQL, or both an argument and a file. */
async function readSql(argument: string | undefined, { file }: Options): Promise<ForeignSql> {
  if (argument !== undefined && file !== undefined) {
    throw new FatalError('Use SQL or --file, not both.', EXIT.usage)
  }
  const sql =
    file === undefined
      ? { text: (argument ?? '').replace(/^\s*(\w+)[\s;]*$/, 'FROM $1'), file: null }
      : { text: await readText(file), file: file === '-' ? 'standard input' : file }
  if (sql.text.trim() !== '') return sql
  throw new FatalError(
    `There is no SQL${sql.file ? ` in ${sql.file}` : ''}. Try: editais query "SELECT count(*) FROM editais"`,
    EXIT.usage,
  )
}

async function readText(file: string): Promise<string> {
  const name = file === '-' ? 'Standard input' : file
  try {
    return decodeText(file === '-' ? await buffer(process.stdin) : await readFile(file))
  } catch (error) {
    throw new FatalError(`${name} cannot be read: ${findSystemCode(error) ?? getMessage(error)}.`, EXIT.usage)
  }
}

/** What the parameters of the dashboards' questions mean; those of a user's own need no other words than their names. */
const MEANINGS: Readonly<Record<string, string>> = { uf: ': state of the buyer, such as SP' }

/** Returns a command for each saved question, whose options are its parameters. */
export async function askCommand(environment: Environment): Promise<Command> {
  const questions = await readQuestions(join(dirname(findCompaniesFile(environment).path), 'questions'))
  const ask = new Command('ask')
    .usage('[question] [options]')
    .description('Ask the latest snapshot a saved question, for example: editais ask pendencias --uf SP')
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nThe questions are those of the dashboards, and the .sql files in config/questions: see docs/tools/README.md.',
    )
    .argument('[question]')
    .action((key: string | undefined) => {
      if (key === undefined) return ask.outputHelp()
      const near = [...questions.keys()].filter(known => known.includes(key) || key.includes(known))
      const hint = near.length > 0 ? ` Did you mean ${near.join(' or ')}?` : ''
      throw new FatalError(
        `There is no question ${JSON.stringify(key)}.${hint} \`editais ask\` lists them.`,
        EXIT.usage,
      )
    })
  for (const question of questions.values()) ask.addCommand(questionCommand(question, environment))
  return ask
}

function questionCommand(question: Question, environment: Environment): Command {
  const { key, name, description, parameters } = question
  const command = new Command(key).summary(name).description(`${name}. ${description}`)
  for (const { name, isRequired } of parameters) {
    const meaning = MEANINGS[name] ?? ''
    if (isRequired) command.requiredOption(`--${name} <value>`, `required${meaning}`)
    else command.option(`--${name} <value>`, `optional${meaning}`)
  }
  return command
    .option('--company <slug>', 'company to ask about, instead of COMPANY')
    .option('--all', 'ask about all configured companies together')
    .option('--csv', 'print CSV')
    .option('--json', 'print a JSON array of objects')
    .action(async (options: SnapshotOptions & Record<string, unknown>) => {
      const print = choosePrinter(options, printInPortuguese)
      const values = Object.fromEntries(
        parameters.flatMap(({ name }) =>
          typeof options[name] === 'string' ? [[name, cleanText(options[name])]] : [],
        ),
      )
      const sql = { text: sqlFor(question, new Set(Object.keys(values))), file: `${key}.sql`, values }
      await withOpenSnapshot(environment, options, async ({ ask }) => await print(await ask(sql)), 'ours')
    })
}
