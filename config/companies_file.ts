import { readFile } from 'node:fs/promises'
import type { Document, LineCounter, YAMLError } from 'yaml'
import { z } from 'zod'
import { EXIT, FatalError, messageOf, systemCode } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'

/** Settings as written in the file: names in lower case, values as text. */
export type OwnSettings = Readonly<Record<string, string>>

/** The contents of the companies' file, before its settings are interpreted. */
export type CompaniesFile = {
  readonly defaults: OwnSettings
  /** By name, which may be an invalid slug; an error message instead of settings that cannot be used. */
  readonly companies: ReadonlyMap<string, OwnSettings | string>
}

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
export async function readCompaniesFile(path: string): Promise<CompaniesFile | null> {
  const text = await readText(path)
  if (text === null) return null
  try {
    return companiesIn(await parse(text))
  } catch (error) {
    throw new FatalError(
      `${path}: ${messageOf(error)}\nSee config/companies.example.yaml for an example.`,
      EXIT.usage,
    )
  }
}

async function readText(path: string): Promise<string | null> {
  try {
    return decodeText(await readFile(path))
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw new FatalError(`${path} cannot be read: ${systemCode(error) ?? messageOf(error)}.`, EXIT.usage)
  }
}

/** Parses a companies' file. @throws Error with a message about the invalid line. */
async function parse(text: string): Promise<unknown> {
  // Loaded only if there is such a file, so that commands of a single company start sooner.
  const { LineCounter, parseDocument, visit } = await import('yaml')
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
      throw new Error(unknownAlias(alias.source, lineOf(alias, lineCounter), text))
    },
  })
  return valuesOf(document)
}

function valuesOf(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES })
  } catch (error) {
    if (!/alias/i.test(messageOf(error))) throw error
    throw new Error(
      'its aliases (*name) refer to one another, or expand to far too much. Write the settings out.',
    )
  }
}

function lineOf({ range }: { range?: readonly number[] | null }, lineCounter: LineCounter): number {
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
export function shownSetting(name: string): string {
  return isShown(name) ? name : 'a name (not shown: it may be a secret)'
}

/** Checks the shape of a parsed companies' file. @throws Error with a message for people. */
function companiesIn(root: unknown): CompaniesFile {
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
