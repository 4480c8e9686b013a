import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'

/** Questions in SQL, saved as files: the cards of the dashboards, and those of users. */

const CARDS_DIRECTORY = join(import.meta.dirname, '../../config/metabase/cards')

/** The contents of a question's file. */
type QuestionText = {
  readonly name: string
  readonly description: string
  /** With parameters as `{{uf}}`, and `[[…]]` around what is left out if its parameter has no value. */
  readonly sql: string
}

/** A question that can be asked by its key, the name of its file. */
export type Question = QuestionText & {
  readonly key: string
  readonly parameters: readonly Parameter[]
}

type Parameter = { readonly name: string; readonly isRequired: boolean }

const KEY = /^([a-z0-9][a-z0-9_-]*)\.sql$/
/** In one word: it is an option, too. */
const PARAMETER = /\{\{\s*([a-z][a-z0-9_]*)\s*\}\}/g
/** Options of every question. */
const OPTIONS = ['company', 'all', 'csv', 'json', 'help']
const OPTIONAL = /\[\[((?:(?!\[\[|\]\]).)*)\]\]/gs

/**
 * Reads a question.
 * @throws Error if the file cannot be read, or does not begin with at least two comment lines, the name and the description.
 */
async function readQuestion(path: string): Promise<QuestionText> {
  const sql = await readSql(path)
  const lines = sql.split('\n')
  const comments = lines.slice(
    0,
    lines.findIndex(line => !line.startsWith('-- ')),
  )
  const [name, ...description] = comments.map(line => line.slice('-- '.length).trim())
  if (!name || description.length === 0) {
    throw new Error(`${basename(path)} must begin with two comment lines (-- …): a name, then a description`)
  }
  return { name, description: description.join(' '), sql }
}

/** Reads a card of the dashboards. @throws Error if its file is not a question: a mistake of the card's author. */
export async function readCard(key: string): Promise<QuestionText> {
  return await readQuestion(join(CARDS_DIRECTORY, `${key}.sql`))
}

async function readSql(path: string): Promise<string> {
  try {
    return decodeText(await readFile(path)).trim()
  } catch (error) {
    throw new Error(`${path} cannot be read: ${findSystemCode(error) ?? getMessage(error)}`)
  }
}

/**
 * Returns the questions of users and of the dashboards, by key. One of a user replaces ours of the same key.
 * @param directory of the users' files; it need not exist.
 * @throws FatalError (usage) if a user's file cannot be read, or is not a question.
 */
export async function readQuestions(directory: string): Promise<ReadonlyMap<string, Question>> {
  const own = await keysIn(directory).catch(error => {
    if (findSystemCode(error) === 'ENOENT') return []
    throw new FatalError(
      `${directory} cannot be read: ${findSystemCode(error) ?? getMessage(error)}.`,
      EXIT.usage,
    )
  })
  const places = new Map([
    ...(await keysIn(CARDS_DIRECTORY)).map(key => [key, CARDS_DIRECTORY] as const),
    ...own.map(key => [key, directory] as const),
  ])
  const questions = [...places].sort().map(async ([key, place]) => {
    const path = join(place, `${key}.sql`)
    const text = await readQuestion(path).catch(error => {
      throw new FatalError(`${getMessage(error)}.`, EXIT.usage)
    })
    const parameters = listParameters(text.sql)
    const taken = parameters.find(({ name }) => OPTIONS.includes(name))
    if (taken)
      throw new FatalError(`${path}: a parameter cannot be called ${taken.name}. Rename it.`, EXIT.usage)
    return [key, { key, ...text, parameters }] as const
  })
  return new Map(await Promise.all(questions))
}

async function keysIn(directory: string): Promise<string[]> {
  return (await readdir(directory)).flatMap(name => KEY.exec(name)?.[1] ?? [])
}

/** Lists the parameters of the SQL. One is required if the SQL needs it outside of the parts that can be left out. */
function listParameters(sql: string): Parameter[] {
  const namesIn = (text: string) => [...text.matchAll(PARAMETER)].map(([, name]) => name as string)
  const required = new Set(namesIn(sql.replaceAll(OPTIONAL, '')))
  return [...new Set(namesIn(sql))].map(name => ({ name, isRequired: required.has(name) }))
}

/**
 * Returns the SQL of a question for these values, which it holds as parameters of the statement: `$uf`.
 * @param given the parameters that have a value.
 */
export function sqlFor({ sql }: Pick<Question, 'sql'>, given: ReadonlySet<string>): string {
  return sql
    .replaceAll(OPTIONAL, (_, part: string) =>
      [...part.matchAll(PARAMETER)].every(([, name]) => given.has(name as string)) ? part : '',
    )
    .replaceAll(PARAMETER, (_, name: string) => `$${name}`)
}
