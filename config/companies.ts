import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Document, LineCounter, YAMLError } from 'yaml'
import { z } from 'zod'
import { pluralize } from '#src/lib/count.ts'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'
import { MERGED_SETTINGS, REMOVED_SETTINGS } from './setting_kinds.ts'
import {
  COMPANY_SETTINGS,
  type Environment,
  NO_ADDRESS,
  readSettings,
  refuseMerged,
  SCHEDULE_SETTINGS,
  SLUG_RULE,
  slug,
} from './settings.ts'

/** Settings as written in the file: names in lower case, values as text. */
type OwnSettings = Readonly<Record<string, string>>

/** The contents of the companies' file, before its settings are interpreted. */
type CompaniesFile = {
  readonly defaults: OwnSettings
  /** By name, which may be an invalid slug; an error message instead of settings that cannot be used. */
  readonly companies: ReadonlyMap<string, OwnSettings | string>
  readonly findLine: LineOf
}

/** Returns the line of a setting, by its place in the file; null if it is not written there. */
type LineOf = (path: readonly string[], name: string) => number | null

/** A thousand companies may share a part; aliases of aliases that expand to more are rejected. */
const MAX_ALIASES = 100_000

const value = z.union([
  z.string(),
  z.number().transform(String),
  z.boolean().transform(String),
  z.array(z.union([z.string(), z.number()])).transform(list => list.join(',')),
])
type Node = Readonly<Record<string, unknown>>

/**
 * Reads the companies' file; null if there is no such file.
 * @throws FatalError (usage) if the file as a whole cannot be read, whatever the cause.
 */
async function readCompaniesFile(path: string): Promise<CompaniesFile | null> {
  const text = await readText(path)
  if (text === null) return null
  try {
    const { root, findLine } = await parse(text)
    return { ...companiesIn(root), findLine }
  } catch (error) {
    throw new FatalError(
      `${path}: ${getMessage(error)}\nSee config/companies.example.yaml for an example.`,
      EXIT.usage,
    )
  }
}

async function readText(path: string): Promise<string | null> {
  try {
    return decodeText(await readFile(path))
  } catch (error) {
    if (findSystemCode(error) === 'ENOENT') return null
    throw new FatalError(`${path} cannot be read: ${findSystemCode(error) ?? getMessage(error)}.`, EXIT.usage)
  }
}

/** Parses a companies' file. @throws Error with a message about the invalid line. */
async function parse(text: string): Promise<{ root: unknown; findLine: LineOf }> {
  // Loaded only if there is such a file, so that commands of a single company start sooner.
  const { isMap, isScalar, LineCounter, parseDocument, visit } = await import('yaml')
  const lineCounter = new LineCounter()
  const document = parseDocument(text, { lineCounter, merge: true })
  const [syntax] = document.errors
  if (syntax) throw new Error(syntaxProblem(syntax, text))
  // In text order: an alias may refer only to an anchor above it. (Resolving each would search the whole document.)
  const anchors = new Set<string>()
  visit(document, {
    Value(_, node) {
      if (node.anchor) anchors.add(node.anchor)
    },
    Alias(_, alias) {
      if (anchors.has(alias.source)) return
      throw new Error(unknownAlias(alias.source, lineIn(alias, lineCounter), text))
    },
  })
  const findLine: LineOf = (path, name) => {
    const settings = document.getIn(path, true)
    const keys = isMap(settings) ? settings.items.map(({ key }) => key).filter(key => isScalar(key)) : []
    const key = keys.find(({ value }) => String(value).toUpperCase() === name)
    return key ? lineIn(key, lineCounter) : null
  }
  return { root: readValues(document), findLine }
}

function readValues(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES })
  } catch (error) {
    if (!/alias/i.test(getMessage(error))) throw error
    throw new Error(
      'its aliases (*name) refer to one another, or expand to far too much. Write the settings out.',
    )
  }
}

function lineIn({ range }: { range?: readonly number[] | null }, lineCounter: LineCounter): number {
  return lineCounter.linePos(range?.[0] ?? 0).line
}

function syntaxProblem({ code, message, linePos }: YAMLError, text: string): string {
  const line = linePos?.[0].line ?? 1
  const bare = bareStar(line, text)
  if (bare) return bare
  // The rest of the message quotes the text, which may hold a secret.
  const [what = ''] = message.split(/ at line \d|[:!"'`\\]/)
  if (code === 'DUPLICATE_KEY') return `line ${line}: this name occurs twice. Remove one of the two.`
  if (code === 'TAB_AS_INDENT') return `line ${line} is indented with a tab. YAML allows only spaces.`
  return `line ${line} is not valid YAML (${what}). Check its indentation and quotes.`
}

const BARE_STAR = /(?:^|[{,])\s*([\w-]+):\s+(\*(?:[ /].*?)?)\s*(?:,\s*[\w-]+:|[}#]|$)/

/** Only the beginning of a longer line is read: the expression is slow. */
const MAX_LINE = 200

/** Returns a message if an unquoted value begins with a star, such as a cron expression: YAML reads that as an alias. */
function bareStar(line: number, text: string): string | null {
  // Between braces, the value ends at the next setting: a cron expression may have commas.
  const [, name, value = ''] = BARE_STAR.exec((text.split('\n')[line - 1] ?? '').slice(0, MAX_LINE)) ?? []
  if (!name) return null
  const example = isCronLike(value) && isShown(name) ? ` Write ${name}: "${value}"` : ''
  return `line ${line}: a value that begins with * needs quotes.${example}`
}

function unknownAlias(name: string, line: number, text: string): string {
  const what = isShown(name) ? `*${name} refers to &${name}` : 'an alias (*name) refers to an anchor (&name)'
  return (
    bareStar(line, text) ??
    `line ${line}: ${what}, which is not defined above it. Write the value itself, in quotes if it begins with *.`
  )
}

/** Fields of digits, stars and names such as MON. */
function isCronLike(value: string): boolean {
  return /^(?:[\d*/,# -]|[A-Z]{3}(?![A-Z]))*$/i.test(value)
}

/** Returns whether a message may repeat it: a name may be a misplaced secret, and nearly all secrets have digits (I7). */
function isShown(name: string): boolean {
  return /^[a-z_-]{1,40}$/i.test(name)
}

/** Returns a name in the form that messages may show. */
function shownSetting(name: string): string {
  return isShown(name) ? name : 'a name (not shown: it may be a secret)'
}

/** Checks the shape of a parsed companies' file. @throws Error with a message for people. */
function companiesIn(root: unknown): Omit<CompaniesFile, 'findLine'> {
  if (root === null || root === undefined) throw new Error('the file is empty. It needs `companies:`.')
  if (!isNode(root)) throw new Error('the file must have `companies:` with the companies below it, by name.')
  const unknown = Object.keys(root).find(name => name !== 'defaults' && name !== 'companies')
  if (unknown !== undefined) {
    throw new Error(
      `${isShown(unknown) ? JSON.stringify(unknown) : shownSetting(unknown)} is not allowed at the top level: only defaults and companies are.`,
    )
  }
  if (!isNode(root.companies)) {
    throw new Error('companies: must list the companies below it, by name, each with its settings.')
  }
  const defaults = settingsIn(root.defaults)
  if (typeof defaults === 'string') throw new Error(`defaults: ${defaults}`)
  const companies = Object.entries(root.companies).map(([name, own]) => [name, settingsIn(own)] as const)
  return { defaults, companies: new Map(companies) }
}

/** Returns the settings of an entry, or an error message if they cannot be used; an empty entry has none. */
function settingsIn(own: unknown): OwnSettings | string {
  if (own === null || own === undefined) return {}
  if (!isNode(own)) return 'put its settings below it, each as `name: value` on a line of its own.'
  const settings: [string, string][] = []
  for (const [name, given] of Object.entries(own)) {
    // A setting without a value counts as unset, like an empty variable.
    const parsed = value.safeParse(given ?? '')
    if (!parsed.success)
      return `${shownSetting(name)}: must be text, a number, true, false, or a list of texts and numbers.`
    settings.push([name, parsed.data])
  }
  return Object.fromEntries(settings)
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const DEFAULT_FILE = 'config/companies.yaml'
/** Maximum length of an invalid name that a message repeats. */
const MAX_SHOWN_NAME = 40
/** Maximum number of names in a sentence, and of sentences about entries. */
const MAX_NAMES = 20
const VARIABLE = /^[A-Z_][A-Z0-9_]*$/
const OWN_NAMES: readonly string[] = [...COMPANY_SETTINGS, ...SCHEDULE_SETTINGS].filter(
  name => name !== 'COMPANY',
)

/** The companies by slug, each with its own variables; the key is read at each run. */
type Companies = {
  /** Absolute; null if a single company is configured by the environment alone. */
  readonly file: string | null
  readonly environments: ReadonlyMap<string, Environment>
  /** Companies of the file that cannot be used, with the reason; the others can. */
  readonly broken: ReadonlyMap<string, string>
  /** The settings that locate the data of the companies in `broken`: a mistake in an entry does not affect them. */
  readonly places: ReadonlyMap<string, Environment>
  /** The problem with names that are not valid slugs; null if all are valid. */
  readonly problem: string | null
  /** One for each setting of earlier versions that the environment or the file still has, and for each misspelled one. */
  readonly warnings: readonly string[]
}

/** Returns where the companies are configured: the absolute path, and whether COMPANIES_FILE names it. */
export function findCompaniesFile(environment: Environment): { path: string; named: boolean } {
  const named = environment.COMPANIES_FILE?.trim()
  return { path: resolve(named || DEFAULT_FILE), named: Boolean(named) }
}

/**
 * Reads the companies' file; without one, the environment configures a single company.
 * @throws FatalError (usage) if the file cannot be read or has no usable company; the message lists every mistake.
 */
export async function readCompanies(environment: Environment): Promise<Companies> {
  const { path } = findCompaniesFile(environment)
  refuseMerged(environment)
  const inEnvironment = [...warnOfRemoved(environment), ...(await warnOfMisspelled(environment))]
  const read = await readCompaniesFile(path)
  if (read === null) {
    const { company } = readSettings(environment)
    return {
      file: null,
      environments: new Map([[company, environment]]),
      ...NONE_BROKEN,
      warnings: inEnvironment,
    }
  }
  const environments = new Map<string, Environment>()
  const broken = new Map<string, string>()
  const places = new Map<string, Environment>()
  // Loaded only if there is such a file, so that commands of a single company start sooner.
  const { readSchedule } = await import('./daemon.ts')
  const problems: string[] = []
  for (const [company, own] of read.companies) {
    if (!slug.safeParse(company).success) {
      problems.push(`${path}: companies: ${shownName(company)} ${SLUG_RULE}.`)
      continue
    }
    const entry = { company, defaults: read.defaults, own, findLine: read.findLine }
    try {
      const merged = await environmentIn(environment, entry)
      readSchedule(merged)
      environments.set(company, merged)
    } catch (error) {
      broken.set(company, brokenEntry(path, company, error))
      places.set(company, placeIn(environment, entry))
    }
  }
  const all = [...problems, ...broken.values()]
  if (environments.size === 0 && all.length > 0) throw allBroken(all)
  const warnings = [...inEnvironment, ...warnOfFile(path, read)]
  return { file: path, environments, broken, places, problem: problems.join('\n') || null, warnings }
}

/** Returns one warning for each setting of earlier versions in the file, with the companies that have it. */
function warnOfFile(path: string, { defaults, companies }: CompaniesFile): string[] {
  const entries = [['defaults', defaults] as const, ...companies].flatMap(([entry, own]) =>
    // An invalid name may be a secret.
    (typeof own === 'string' || !slug.safeParse(entry).success ? [] : Object.keys(own))
      .filter(name => REMOVED_SETTINGS.has(name.toUpperCase()))
      .map(name => ({ name, entry })),
  )
  return [...Map.groupBy(entries, ({ name }) => name)].map(
    ([name, all]) =>
      `${path}: ${joinNames(all.map(({ entry }) => entry))}: ${removedWarning(name.toUpperCase(), name)}`,
  )
}

const NONE_BROKEN = { broken: new Map(), places: new Map(), problem: null } as const

/**
 * Makes the error for a file in which no company can be used. A wrong default breaks all of them, so it shows only some of the
 * messages.
 */
export function allBroken(problems: readonly string[]): FatalError {
  const more = problems.length > MAX_NAMES ? [`And ${problems.length - MAX_NAMES} more.`] : []
  return new FatalError([...problems.slice(0, MAX_NAMES), ...more].join('\n'), EXIT.usage)
}

/** Returns the message of a broken entry. Any error while reading an entry breaks this entry alone, not the others. */
function brokenEntry(path: string, company: string, error: unknown): string {
  const message = error instanceof FatalError ? error.message : getMessage(error)
  return message
    .split('\n')
    .map(problem => `${path}: ${company}: ${problem}`)
    .join('\n')
}

/**
 * Returns a name for messages: quoted, because it may be empty. An address, or a text as long as a key, is not shown: it may be a
 * secret (I7).
 */
function shownName(name: string): string {
  const isHarmless = name.length <= MAX_SHOWN_NAME && /^[^:@?=#]*$/.test(name)
  return isHarmless ? JSON.stringify(name) : 'a name (not shown: it may be a secret)'
}

/** Throws FatalError (usage) if the option --company has no valid name. */
export function refuseWrongSlug(company: string): void {
  if (!slug.safeParse(company).success)
    throw new FatalError(`--company ${company || '""'}: ${SLUG_RULE}.`, EXIT.usage)
}

/**
 * Returns the environment of the company that a command is for.
 * @throws FatalError (usage) if the companies' file does not list it, or lists several and none was named.
 */
export async function loadCompanyEnvironment(
  environment: Environment,
  company?: string,
): Promise<Environment> {
  if (company !== undefined) refuseWrongSlug(company)
  const named = company ?? (environment.COMPANY?.trim() || undefined)
  const {
    file,
    environments,
    broken,
    problem: misnamed,
    warnings,
  } = await readCompanies({
    ...environment,
    ...(named ? { COMPANY: named } : {}),
  })
  for (const warning of warnings) process.stderr.write(`${warning}\n`)
  // An entry under an invalid name may be the one that is meant.
  if (misnamed !== null && named === undefined) throw new FatalError(misnamed, EXIT.usage)
  const slugs = [...environments.keys(), ...broken.keys()]
  if (file && named === undefined && slugs.length !== 1) {
    throw new FatalError(
      `Which company? ${file} has ${joinNames(slugs)}. Name one with --company.`,
      EXIT.usage,
    )
  }
  const wanted = named ?? (slugs[0] as string)
  const own = environments.get(wanted)
  if (own) return own
  const problem = broken.get(wanted)
  if (problem !== undefined) throw new FatalError(problem, EXIT.usage)
  throw new FatalError(`${named} is not in ${file}, which has ${joinNames(slugs)}.`, EXIT.usage)
}

/** Returns the names for use in a sentence: a file may have a thousand of them. */
export function joinNames(slugs: readonly string[]): string {
  const shown = slugs.slice(0, MAX_NAMES).join(', ')
  return slugs.length <= MAX_NAMES ? shown : `${shown} and ${pluralize(slugs.length - MAX_NAMES, 'other')}`
}

type Entry = {
  readonly company: string
  readonly defaults: OwnSettings
  readonly own: OwnSettings | string
  readonly findLine: LineOf
}

/** Returns the company's data directory; the environment's if the entry's own is invalid. */
function placeIn(environment: Environment, { company, defaults, own }: Entry): Environment {
  const { DATA_DIR } = {
    ...environment,
    ...upperCase(defaults),
    ...(typeof own === 'string' ? {} : upperCase(own)),
  }
  const place = { COMPANY: company, DATA_DIR }
  try {
    readSettings(place)
    return place
  } catch {
    return { ...place, DATA_DIR: environment.DATA_DIR }
  }
}

/** Returns the worker's environment, overridden by the company's own settings, with only this company's key. */
async function environmentIn(environment: Environment, entry: Entry): Promise<Environment> {
  const { company, defaults, own, findLine } = entry
  if (typeof own === 'string') throw new FatalError(own, EXIT.usage)
  const all = { ...upperCase(defaults), ...upperCase(own) }
  for (const name of Object.keys(all))
    if (!REMOVED_SETTINGS.has(name) && !MERGED_SETTINGS.has(name))
      await refuseUnknown(name, findLine(['companies', company], name) ?? findLine(['defaults'], name))
  const { API_KEY_ENV: keyVariable, API_KEY_FILE: keyFile, ...rest } = all
  if (Boolean(keyVariable) === Boolean(keyFile)) {
    throw new FatalError('set either api_key_file (a path) or api_key_env (a variable).', EXIT.usage)
  }
  if (keyVariable && !VARIABLE.test(keyVariable)) {
    // The value may be the key itself, so the message does not repeat it.
    throw new FatalError(
      'api_key_env must be the name of a variable, such as ACME_API_KEY. Put the key itself into that variable.',
      EXIT.usage,
    )
  }
  const merged: Environment = {
    ...environment,
    ...rest,
    COMPANY: company,
    API_KEY: keyVariable ? environment[keyVariable] : undefined,
    API_KEY_ENV: keyVariable,
    API_KEY_FILE: keyFile,
  }
  readSettings(merged)
  if (!merged.API_BASE_URL?.trim()) throw new FatalError(NO_ADDRESS, EXIT.usage)
  return merged
}

function upperCase(settings: OwnSettings): OwnSettings {
  return Object.fromEntries(Object.entries(settings).map(([name, text]) => [name.toUpperCase(), text]))
}

async function refuseUnknown(name: string, line: number | null): Promise<void> {
  if (name === 'API_KEY') {
    throw new FatalError(
      'api_key: do not put a key into this file. Set api_key_file to the path of its file, or api_key_env to the name of a variable.',
      EXIT.usage,
    )
  }
  if (OWN_NAMES.includes(name) || name === 'API_KEY_ENV' || name === 'API_KEY_FILE') return
  const known = OWN_NAMES.map(own => own.toLowerCase())
  throw new FatalError(
    `${line === null ? '' : `line ${line}: `}${shownSetting(name.toLowerCase())} is not a setting of a company.${await didYouMean(name.toLowerCase(), known)} A company can set ${known.join(', ')}, api_key_file and api_key_env. Other settings are set in the environment, for all companies.`,
    EXIT.usage,
  )
}

const MAX_TYPOS = 2

/** The library is loaded only for a name that may be wrong, so that other commands start sooner. */
async function didYouMean(name: string, known: readonly string[]): Promise<string> {
  const { closest, distance } = await import('fastest-levenshtein')
  const near = closest(name, [...known])
  return distance(name, near) <= MAX_TYPOS ? ` Did you mean ${near}?` : ''
}

/**
 * Returns a warning for each variable whose name is nearly that of a company's setting: the default would hold in silence. Other
 * programs have variables, too, so two words that begin like a setting are looked at, and no others.
 */
async function warnOfMisspelled(environment: Environment): Promise<string[]> {
  const settings = [...COMPANY_SETTINGS, ...SCHEDULE_SETTINGS]
  const begins = new Set(settings.map(name => name.slice(0, 2)))
  const warnings: string[] = []
  for (const name of Object.keys(environment)) {
    // Variables that `api_key_env` names are the user's own.
    if (!begins.has(name.slice(0, 2)) || !/^(?!API_KEY)\w+_/.test(name) || settings.includes(name)) continue
    const hint = REMOVED_SETTINGS.has(name) ? '' : await didYouMean(name, settings)
    if (hint === '' || (await import('./daemon.ts')).DAEMON_SETTINGS.includes(name)) continue
    warnings.push(`${name} is not a setting, and has no effect.${hint}`)
  }
  return warnings
}

/** Returns a warning for each setting of earlier versions that the environment has. */
function warnOfRemoved(environment: Environment): string[] {
  const given = [...REMOVED_SETTINGS.keys()].filter(name => environment[name]?.trim())
  return given.map(name => removedWarning(name))
}

/** Returns the warning about a removed setting. @param shown its name as it is written there. */
function removedWarning(name: string, shown = name): string {
  return `${shown} is no longer a setting: ${REMOVED_SETTINGS.get(name)}. Remove ${shown}.`
}
