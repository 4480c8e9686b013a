import { existsSync } from 'node:fs'
import { chmod, mkdir, readFile, realpath, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { parseEnv } from 'node:util'
import { Command } from 'commander'
import { findCompaniesFile, readCompanies, refuseWrongSlug } from '#config/companies.ts'
import { type Environment, readApiSettings, readSettings } from '#config/settings.ts'
import { makePrintableLines } from '#schema/text_key.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { validatePage } from '#src/core/pipeline/validate.ts'
import { closing } from '#src/lib/closing.ts'
import { pluralize } from '#src/lib/count.ts'
import { writeBeside, writeNew } from '#src/lib/durable.ts'
import { EXIT, explain, FatalError } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'
import { openApi } from '#src/operate/open.ts'

type Options = { readonly company?: string; readonly yes?: true }
/** The settings of a new company: its API, its key or the file with the key, and its short name. */
type Answers = {
  readonly API_BASE_URL: string
  readonly key: { readonly API_KEY: string } | { readonly API_KEY_FILE: string }
  readonly COMPANY: string
}
/** Runs a sync command with these arguments. */
export type Sync = (environment: Environment, args: readonly string[]) => Promise<void>

const ENV_FILE = '.env'

export function createInitCommand(environment: Environment, sync: Sync): Command {
  return new Command('init')
    .description(
      'Set up this directory: ask for the API’s address and a key, try them, and write .env. Nothing that exists is overwritten.',
    )
    .option('--company <slug>', 'add this company to the companies’ file (config/companies.yaml) instead')
    .option(
      '--yes',
      'ask nothing: API_BASE_URL, API_KEY or API_KEY_FILE, and COMPANY are variables; run no sync',
    )
    .action(async ({ company, yes }: Options) => {
      const inFile = await readEnvFile()
      const write =
        company === undefined ? prepareEnvFile(environment) : await prepareEntry(environment, company, inFile)
      const named = company === undefined ? environment : { ...environment, COMPANY: company }
      const answers = yes ? await tried(named, givenKey(environment, inFile)) : await ask(named, company)
      print(await write(answers))
      if (yes) return
      const { key, ...settings } = answers
      const own = withKey({ ...named, ...settings }, key)
      const args = company === undefined ? [] : ['--company', company]
      if (!(await agrees('Show what a first run would do?'))) return
      await sync(own, ['--plan', ...args])
      if (await agrees('Run it now?')) await sync(own, args)
    })
}

/** Returns the variables of `.env`; none without one. */
async function readEnvFile(): Promise<Environment> {
  return existsSync(ENV_FILE) ? parseEnv(decodeText(await readFile(ENV_FILE))) : {}
}

/** Returns the environment with this key, and no other one. */
function withKey(environment: Environment, key: Answers['key']): Environment {
  return { ...environment, API_KEY: undefined, API_KEY_FILE: undefined, API_KEY_ENV: undefined, ...key }
}

/** Returns the key that the variables give; the one in `.env` belongs to another company. @throws FatalError (usage) without one. */
function givenKey({ API_KEY, API_KEY_FILE }: Environment, inFile: Environment): Answers['key'] {
  if (API_KEY?.trim() && API_KEY !== inFile.API_KEY) return { API_KEY: API_KEY.trim() }
  if (API_KEY_FILE?.trim() && API_KEY_FILE !== inFile.API_KEY_FILE)
    return { API_KEY_FILE: resolve(API_KEY_FILE.trim()) }
  throw new FatalError('With --yes, give the key as a variable: API_KEY, or API_KEY_FILE.', EXIT.usage)
}

type Write = (answers: Answers) => Promise<string>

/** Prepares a new `.env`. @throws FatalError (usage) if companies are configured already. */
function prepareEnvFile(environment: Environment): Write {
  const { path } = findCompaniesFile(environment)
  if (existsSync(path))
    throw new FatalError(`${path} lists the companies. To add one: editais init --company SLUG`, EXIT.usage)
  const refuse = () => {
    if (existsSync(ENV_FILE))
      throw new FatalError(
        `${resolve(ENV_FILE)} exists, and is not changed. Edit it, or add a company: editais init --company SLUG`,
        EXIT.usage,
      )
  }
  refuse()
  return async ({ API_BASE_URL, key, COMPANY }) => {
    refuse()
    const variables = { API_BASE_URL, ...key, COMPANY }
    const lines = Object.entries(variables).map(([name, value]) => `${name}=${quoted(value)}`)
    const text = `# All settings: docs/operating/settings.md.\n${lines.join('\n')}\n`
    const read = parseEnv(text)
    const wrong = Object.entries(variables).find(([name, value]) => read[name] !== value)
    if (wrong)
      throw new FatalError(
        `${wrong[0]} has signs that .env cannot hold. Put it into a file, whose path is in ${wrong[0]}_FILE.`,
        EXIT.usage,
      )
    await replace(ENV_FILE, text)
    return `Wrote ${resolve(ENV_FILE)}, which only you can read.`
  }
}

/** Quotes a value for `.env`, in a form that Node and Compose read alike. */
function quoted(value: string): string {
  return /^[\w:/.,@%+=?&~-]*$/.test(value) ? value : `'${value}'`
}

/** Prepares an entry of the companies' file. @throws FatalError (usage) if the company is there, or the file is wrong. */
async function prepareEntry(environment: Environment, company: string, inFile: Environment): Promise<Write> {
  const { path } = findCompaniesFile(environment)
  refuseWrongSlug(company)
  const { file, environments, broken } = await readCompanies(environment)
  const listed = () => new FatalError(`${path} lists ${company} already, and is not changed.`, EXIT.usage)
  if (file !== null && (environments.has(company) || broken.has(company))) throw listed()
  const before = file === null ? entryOfOnly(environment, inFile, company) : null
  return async ({ API_BASE_URL, key }) => {
    const { Document, parseDocument } = await import('yaml')
    const document = existsSync(path)
      ? parseDocument(decodeText(await readFile(path)), { merge: true })
      : new Document({ companies: {} })
    if (document.hasIn(['companies', company])) throw listed()
    if (before !== null) document.setIn(['companies', before.company], document.createNode(before.entry))
    const keyFile = 'API_KEY_FILE' in key ? key.API_KEY_FILE : await writeKey(company, key.API_KEY)
    const entry = { api_base_url: API_BASE_URL, api_key_file: keyFile }
    document.setIn(['companies', company], document.createNode(entry))
    await mkdir(dirname(path), { recursive: true })
    await replace(path, document.toString({ lineWidth: 0 }))
    return `Added ${company} to ${path}. Its key is in ${keyFile}.`
  }
}

/**
 * Returns the entry of the company that the variables configure: the file takes its place. Null if they configure none.
 * @throws FatalError (usage) if its data are there, and nobody knows its key.
 */
function entryOfOnly(environment: Environment, inFile: Environment, added: string) {
  const { company, dataDir } = readSettings(environment)
  if (company === added) return null
  if (inFile.API_KEY_FILE) return { company, entry: { api_key_file: resolve(inFile.API_KEY_FILE) } }
  if (inFile.API_KEY) return { company, entry: { api_key_env: 'API_KEY' } }
  const { root } = companyPaths(dataDir, company)
  if (!existsSync(root)) return null
  throw new FatalError(
    `${root} has the data of ${company}, which the companies’ file must list as well, or it is synced no more. Write the file with both: see config/companies.example.yaml.`,
    EXIT.usage,
  )
}

/** Writes a company's key into a file of its own. @throws FatalError (usage) if there is another one. */
async function writeKey(company: string, key: string): Promise<string> {
  const path = resolve('secrets', `${company}_api_key`)
  if (existsSync(path)) {
    if (decodeText(await readFile(path)).trim() === key) return path
    throw new FatalError(`${path} exists, and is not changed. Remove it if no company uses it.`, EXIT.usage)
  }
  await mkdir(dirname(path), { recursive: true })
  await replace(path, `${key}\n`)
  return path
}

/** Writes a file, or replaces it. A new one is for this user alone; another keeps its mode, and a link its target. */
async function replace(name: string, text: string): Promise<void> {
  const path = existsSync(name) ? await realpath(name) : resolve(name)
  const mode = existsSync(path) ? (await stat(path)).mode : null
  await writeBeside(path, 'Run it as a user who may write there.', async temporary => {
    await writeNew(temporary, text)
    if (mode !== null) await chmod(temporary, mode)
  })
}

/** Checks the answers against the API. @throws FatalError if they are wrong, or the API does not answer as it should. */
async function tried(environment: Environment, key: Answers['key']): Promise<Answers> {
  const own = withKey(environment, key)
  const api = readApiSettings(own)
  const { company } = readSettings(own)
  const listener = { progress: () => {}, note: print }
  // Ctrl-C may end it at once: nothing is written yet.
  const client = openApi({ ...api, retries: 1 }, listener, new AbortController().signal)
  const asked = { statuses: null, limit: 1, offset: 0 }
  const page = validatePage(await client.listBriefly(asked).finally(() => client.close()))
  if (typeof page === 'string')
    throw new FatalError(
      `${api.baseUrl} answers, but not as the notice API does: ${page}. Is it the address before /api/v1?`,
      EXIT.usage,
    )
  print(`${api.baseUrl} answers: ${pluralize(page.total, 'notice')}.`)
  return { API_BASE_URL: api.baseUrl, key, COMPANY: company }
}

/** Asks until the API accepts the answers. @param company of an entry; otherwise its name is asked for, too. */
async function ask(environment: Environment, company: string | undefined): Promise<Answers> {
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new FatalError(
      'There is no terminal to ask on. Set API_BASE_URL and API_KEY, and add --yes.',
      EXIT.usage,
    )
  const given = { ...environment }
  using terminal = closing(openTerminal())
  for (;;) {
    given.API_BASE_URL = await terminal.ask('Address of the API, before /api/v1', given.API_BASE_URL)
    const API_KEY = await terminal.askHidden('Key of the API (not shown)')
    if (company === undefined)
      given.COMPANY = await terminal.ask(
        'Short name of the company, a-z, 0-9, - and _',
        given.COMPANY ?? 'default',
      )
    try {
      return await Promise.race([tried(given, { API_KEY }), terminal.ended])
    } catch (error) {
      const { message, exitCode } = explain(error)
      if (exitCode === EXIT.interrupted) throw error
      process.stderr.write(`${makePrintableLines(message)}\n\n`)
    }
  }
}

async function agrees(what: string): Promise<boolean> {
  using terminal = closing(openTerminal())
  for (;;) {
    const answer = await terminal.ask(`${what} [Y/n]`)
    if (/^(y|yes|s|sim)?$/i.test(answer)) return true
    if (/^(n|no|não|nao)$/i.test(answer)) return false
  }
}

/** Reads lines of the terminal. From now on, it shows only what answers a question that is not hidden, also of what is typed ahead. */
function openTerminal() {
  let isShown = false
  const output = new Writable({
    write(chunk, _encoding, done) {
      if (isShown) process.stderr.write(chunk)
      done()
    },
  })
  const lines = createInterface({ input: process.stdin, output, terminal: true, historySize: 0 })
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => {})
  // Ctrl-C and Ctrl-D.
  const why = new FatalError('Interrupted. Nothing more was written.', EXIT.interrupted)
  lines.once('close', () => ended.reject(why))
  const answer = async (text: string) => (await Promise.race([lines.question(text), ended.promise])).trim()
  return {
    ended: ended.promise,
    async ask(what: string, usual = ''): Promise<string> {
      isShown = true
      try {
        return (await answer(`${what}${usual && ` [${usual}]`}: `)) || usual
      } finally {
        isShown = false
      }
    },
    async askHidden(what: string): Promise<string> {
      process.stderr.write(`${what}: `)
      return await answer('').finally(() => process.stderr.write('\n'))
    },
    close: () => lines.close(),
  }
}

function print(text: string): void {
  process.stderr.write(`${makePrintableLines(text)}\n`)
}
