import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { Command } from 'commander'
import { companiesFile, readCompanies } from '#config/companies.ts'
import { type Environment, readApiSettings, readSettings } from '#config/settings.ts'
import { printableLines } from '#schema/text_key.ts'
import { counted } from '#src/lib/count.ts'
import { EXIT, explain, FatalError, systemCode } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'
import { openApi } from '#src/operate/open.ts'

type Options = { readonly company?: string; readonly yes?: true }
/** What a company needs: its API, and under which name its data are kept. */
type Answers = { readonly API_BASE_URL: string; readonly API_KEY: string; readonly COMPANY: string }
/** Runs a sync command with these arguments. */
export type Sync = (environment: Environment, args: readonly string[]) => Promise<void>

const ENV_FILE = '.env'
const ONLY_OWNER = 0o600

export function initCommand(environment: Environment, sync: Sync): Command {
  return new Command('init')
    .description(
      'Set up this directory: ask for the API’s address and a key, try them, and write .env. Nothing that exists is overwritten.',
    )
    .option('--company <slug>', 'add this company to the companies’ file (config/companies.yaml) instead')
    .option('--yes', 'ask nothing: API_BASE_URL, API_KEY and COMPANY are variables; run no sync')
    .action(async (options: Options) => {
      const write =
        options.company === undefined
          ? await forNewFile(environment)
          : await forEntry(environment, options.company)
      const given = { ...environment, ...(options.company ? { COMPANY: options.company } : {}) }
      const answers = options.yes ? await tried(given) : await ask(given)
      print(await write(answers))
      if (options.yes) return
      const own = { ...given, ...answers }
      const args = options.company ? ['--company', options.company] : []
      if (!(await agrees('Show what a first run would do?'))) return
      await sync(own, ['--plan', ...args])
      if (await agrees('Run it now?')) await sync(own, args)
    })
}

type Write = (answers: Answers) => Promise<string>

/** Prepares a new `.env`. @throws FatalError (usage) if companies are configured already. */
async function forNewFile(environment: Environment): Promise<Write> {
  const { path } = companiesFile(environment)
  if (existsSync(path))
    throw new FatalError(`${path} lists the companies. To add one: editais init --company SLUG`, EXIT.usage)
  if (existsSync(ENV_FILE))
    throw new FatalError(
      `${resolve(ENV_FILE)} exists, and is not changed. Edit it, or add a company: editais init --company SLUG`,
      EXIT.usage,
    )
  return async ({ API_BASE_URL, API_KEY, COMPANY }) => {
    const lines = ['# All settings: docs/operating/settings.md. This file holds a key.']
    for (const [name, value] of Object.entries({ API_BASE_URL, API_KEY, COMPANY }))
      lines.push(`${name}=${quoted(value)}`)
    await writeFile(ENV_FILE, `${lines.join('\n')}\n`, { mode: ONLY_OWNER, flag: 'wx' })
    return `Wrote ${resolve(ENV_FILE)}, which only you can read.`
  }
}

/** Prepares an entry of the companies' file. @throws FatalError (usage) if the company is there, or the file is wrong. */
async function forEntry(environment: Environment, company: string): Promise<Write> {
  const { path } = companiesFile(environment)
  readSettings({ ...environment, COMPANY: company })
  const { file, environments, broken } = await readCompanies(environment)
  const before = [...environments.keys()]
  if (file !== null && (environments.has(company) || broken.has(company)))
    throw new FatalError(`${path} lists ${company} already, and is not changed.`, EXIT.usage)
  return async ({ API_BASE_URL, API_KEY }) => {
    const { Document, parseDocument } = await import('yaml')
    const document =
      file === null
        ? new Document({ companies: {} })
        : parseDocument(decodeText(await readFile(path)), { merge: true })
    // A file takes the place of the company in the environment, which must go on.
    const [only = ''] = before
    if (file === null && environment.API_KEY && only !== company)
      document.setIn(['companies', only], document.createNode({ api_key_env: 'API_KEY' }))
    const keyFile = resolve('secrets', `${company}_api_key`)
    const isUsual = environment.API_BASE_URL === API_BASE_URL
    const entry = { ...(isUsual ? {} : { api_base_url: API_BASE_URL }), api_key_file: keyFile }
    document.setIn(['companies', company], document.createNode(entry))
    await writeKey(keyFile, API_KEY)
    await mkdir(dirname(path), { recursive: true })
    const mode = file === null ? ONLY_OWNER : (await stat(path)).mode
    await writeFile(`${path}.part`, document.toString({ lineWidth: 0 }), { mode })
    await rename(`${path}.part`, path)
    return `Added ${company} to ${path}. Its key is in ${keyFile}, which only you can read.`
  }
}

async function writeKey(path: string, key: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  try {
    await writeFile(path, `${key}\n`, { mode: ONLY_OWNER, flag: 'wx' })
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error
    const same = decodeText(await readFile(path)).trim() === key
    if (!same)
      throw new FatalError(`${path} exists, and is not changed. Remove it if no company uses it.`, EXIT.usage)
  }
}

/** Quotes a value for `.env`: the form that Node and Compose read alike. */
function quoted(value: string): string {
  if (/^[\w:/.,@%+=?&~-]*$/.test(value)) return value
  return value.includes("'") ? `"${value}"` : `'${value}'`
}

/** Checks the answers against the API. @throws FatalError if they are wrong, or the API does not answer. */
async function tried(environment: Environment): Promise<Answers> {
  const api = readApiSettings(environment)
  const settings = readSettings(environment)
  const listener = { progress: () => {}, note: print }
  // Ctrl-C may end it at once: nothing is written yet.
  const client = openApi({ ...api, retries: 1 }, listener, new AbortController().signal)
  const page = { statuses: null, limit: 1, offset: 0 }
  const bytes = await client.listBriefly(page).finally(() => client.close())
  const { total } = JSON.parse(decodeText(bytes)) as { total?: unknown }
  const found = typeof total === 'number' ? `: ${counted(total, 'notice')}` : ''
  print(`${api.baseUrl} answers${found}.`)
  return { API_BASE_URL: api.baseUrl, API_KEY: api.apiKey, COMPANY: settings.company }
}

/** Asks until the API accepts the answers. */
async function ask(environment: Environment): Promise<Answers> {
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new FatalError(
      'There is no terminal to ask on. Set API_BASE_URL and API_KEY, and add --yes.',
      EXIT.usage,
    )
  const given = { ...environment }
  for (;;) {
    given.API_BASE_URL = await question('Address of the API, before /api/v1', given.API_BASE_URL)
    given.API_KEY = await hiddenQuestion('Key of the API (not shown)')
    if (environment.COMPANY === undefined)
      given.COMPANY = await question(
        'Short name of the company, a-z, 0-9, - and _',
        given.COMPANY ?? 'default',
      )
    try {
      return await tried(given)
    } catch (error) {
      const { message, exitCode } = explain(error)
      if (exitCode === EXIT.interrupted) throw error
      process.stderr.write(`${printableLines(message)}\n\n`)
    }
  }
}

async function agrees(what: string): Promise<boolean> {
  return /^(y|yes|s|sim)?$/i.test((await question(`${what} [Y/n]`)).trim())
}

async function question(what: string, usual = ''): Promise<string> {
  const answer = await answerTo(`${what}${usual && ` [${usual}]`}: `, process.stderr)
  return answer.trim() || usual
}

async function hiddenQuestion(what: string): Promise<string> {
  process.stderr.write(`${what}: `)
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const answer = await answerTo('', nowhere).finally(() => process.stderr.write('\n'))
  return answer.trim()
}

/** Reads a line of the terminal. @throws FatalError (interrupted) at Ctrl-C and Ctrl-D. */
async function answerTo(text: string, output: NodeJS.WritableStream): Promise<string> {
  const lines = createInterface({ input: process.stdin, output, terminal: true, historySize: 0 })
  const ended = Promise.withResolvers<never>()
  lines.once('close', () =>
    ended.reject(new FatalError('Interrupted. Nothing more was written.', EXIT.interrupted)),
  )
  try {
    return await Promise.race([lines.question(text), ended.promise])
  } finally {
    ended.promise.catch(() => {})
    lines.close()
  }
}

function print(text: string): void {
  process.stderr.write(`${printableLines(text)}\n`)
}
