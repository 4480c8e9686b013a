import { dirname, join } from 'node:path'
import { Command } from 'commander'
import { companiesFile } from '#config/companies.ts'
import type { Environment } from '#config/settings.ts'
import { cleanText } from '#schema/text_key.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { type Question, readQuestions, sqlFor } from '#src/present/questions.ts'
import { printerFor, printInPortuguese, type SnapshotOptions, withOpenSnapshot } from './snapshot_sql.ts'

/** What the parameters of the dashboards' questions mean; those of a user's own need no other words than their names. */
const MEANINGS: Readonly<Record<string, string>> = { uf: ': state of the buyer, such as SP' }

/** Returns a command for each saved question, whose options are its parameters. */
export async function askCommand(environment: Environment): Promise<Command> {
  const questions = await readQuestions(join(dirname(companiesFile(environment).path), 'questions'))
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
      const print = printerFor(options, printInPortuguese)
      const values = Object.fromEntries(
        parameters.flatMap(({ name }) =>
          typeof options[name] === 'string' ? [[name, cleanText(options[name])]] : [],
        ),
      )
      const sql = { text: sqlFor(question, new Set(Object.keys(values))), file: `${key}.sql`, values }
      await withOpenSnapshot(environment, options, async ({ ask }) => await print(await ask(sql)), 'ours')
    })
}
