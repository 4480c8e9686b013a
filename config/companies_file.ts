import { readFile } from 'node:fs/promises'
import type { Document, LineCounter, YAMLError } from 'yaml'
import { z } from 'zod'
import { EXIT, FatalError, messageOf, systemCode } from '#src/platform/errors.ts'

/** Settings as the file has them: names in lower case, values as text. */
export type OwnSettings = Readonly<Record<string, string>>

/** What the companies' file says, before anybody knows what its settings mean. */
export type CompaniesFile = {
  readonly defaults: OwnSettings
  /** By name, which need not be a valid slug; a sentence if the settings cannot be used. */
  readonly companies: ReadonlyMap<string, OwnSettings | string>
}

/** A thousand companies may share a part; aliases of aliases that multiply to more are refused. */
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
 * @throws FatalError (usage) for one that cannot be read as a whole: whatever went wrong, it is the file.
 */
export async function readCompaniesFile(path: string): Promise<CompaniesFile | null> {
  const text = await readText(path)
  if (text === null) return null
  try {
    return companiesIn(await parse(text))
  } catch (error) {
    throw new FatalError(
      `${path}: ${messageOf(error)}\nSee config/companies.example.yaml for what it looks like.`,
      EXIT.usage,
    )
  }
}

async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw new FatalError(`${path} cannot be read: ${systemCode(error) ?? messageOf(error)}.`, EXIT.usage)
  }
}

/** @throws Error with a sentence about the line that is wrong. */
async function parse(text: string): Promise<unknown> {
  // Loaded only where there is such a file: commands of a single company start sooner.
  const { LineCounter, parseDocument, visit } = await import('yaml')
  const lineCounter = new LineCounter()
  const document = parseDocument(text, { lineCounter, merge: true })
  const [syntax] = document.errors
  if (syntax) throw new Error(syntaxProblem(syntax, text))
  // In the order of the text: an alias may only refer to what stands above it. (To resolve each takes a look at all.)
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
    throw new Error('its aliases (*name) stand for one another, or for far too much. Write the settings out.')
  }
}

function lineOf({ range }: { range?: readonly number[] | null }, lineCounter: LineCounter): number {
  return lineCounter.linePos(range?.[0] ?? 0).line
}

function syntaxProblem({ code, message, linePos }: YAMLError, text: string): string {
  const line = linePos?.[0].line ?? 1
  const bare = bareStar(line, text)
  if (bare) return bare
  // What comes then is of the text, and may be a secret.
  const [what = ''] = message.split(/ at line \d|[:!"'`\\]/)
  if (code === 'DUPLICATE_KEY') return `line ${line}: this name stands there twice. Remove one of them.`
  if (code === 'TAB_AS_INDENT') return `line ${line} is indented with a tab. YAML takes spaces only.`
  return `line ${line} is not YAML (${what}). Check its indentation and quotes.`
}

const BARE_STAR = /(?:^|[{,])\s*([\w-]+):\s+(\*(?:[ /].*?)?)\s*(?:,\s*[\w-]+:|[}#]|$)/

/** A value that begins with a star, such as a cron expression, is an alias to YAML. */
function bareStar(line: number, text: string): string | null {
  // Between braces, up to the next setting; a cron expression may have commas.
  const [, name, value = ''] = BARE_STAR.exec(text.split('\n')[line - 1] ?? '') ?? []
  if (!name) return null
  const example = isCronLike(value) && isShown(name) ? ` Write ${name}: "${value}"` : ''
  return `line ${line}: a value that begins with * needs quotes.${example}`
}

function unknownAlias(name: string, line: number, text: string): string {
  const what = isShown(name) ? `*${name} refers to &${name}` : 'an alias (*name) refers to an anchor (&name)'
  return (
    bareStar(line, text) ??
    `line ${line}: ${what}, which does not stand above it. Write the value itself, in quotes if it begins with *.`
  )
}

/** Fields of digits, stars and names such as MON. */
function isCronLike(value: string): boolean {
  return /^(?:[\d*/,# -]|[A-Z]{3}(?![A-Z]))*$/i.test(value)
}

/** Whether a message may repeat it: a secret may stand where a name belongs, and nearly all have digits (I7). */
function isShown(name: string): boolean {
  return /^[a-z_-]{1,40}$/i.test(name)
}

/** A name as a message repeats it. */
export function shownSetting(name: string): string {
  return isShown(name) ? name : 'a name (not shown: it may be a secret)'
}

/** @throws Error with a sentence, unless it has the shape of a companies' file. */
function companiesIn(root: unknown): CompaniesFile {
  if (root === null || root === undefined) throw new Error('it is empty: it needs companies.')
  if (!isNode(root)) throw new Error('it must have `companies:` with the companies below it, by name.')
  const unknown = Object.keys(root).find(name => name !== 'defaults' && name !== 'companies')
  if (unknown !== undefined) {
    throw new Error(
      `${isShown(unknown) ? JSON.stringify(unknown) : shownSetting(unknown)} is not known here: it takes only defaults and companies.`,
    )
  }
  if (!isNode(root.companies)) {
    throw new Error('companies: must have the companies below it, by name, each with its settings.')
  }
  const defaults = settingsIn(root.defaults)
  if (typeof defaults === 'string') throw new Error(`defaults: ${defaults}`)
  const companies = Object.entries(root.companies).map(([name, own]) => [name, settingsIn(own)] as const)
  return { defaults, companies: new Map(companies) }
}

/** A sentence if they cannot be used; an empty entry has no settings. */
function settingsIn(own: unknown): OwnSettings | string {
  if (own === null || own === undefined) return {}
  if (!isNode(own)) return 'its settings must stand below it, each as `name: value` on a line of its own.'
  const settings: [string, string][] = []
  for (const [name, given] of Object.entries(own)) {
    // A setting without a value counts as not set, as an empty variable does.
    const parsed = value.safeParse(given ?? '')
    if (!parsed.success)
      return `${shownSetting(name)}: must be a text, a number, true or false, or a list of texts and numbers.`
    settings.push([name, parsed.data])
  }
  return Object.fromEntries(settings)
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
