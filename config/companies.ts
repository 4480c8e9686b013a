import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { z } from 'zod'
import { EXIT, FatalError, messageOf, systemCode } from '#src/errors.ts'
import {
  COMPANY_SETTINGS,
  type Environment,
  NO_ADDRESS,
  readSettings,
  SCHEDULE_SETTINGS,
  SLUG_RULE,
  slug,
} from './settings.ts'

const DEFAULT_FILE = 'config/companies.yaml'
const VARIABLE = /^[A-Z_][A-Z0-9_]*$/
const OWN_NAMES: readonly string[] = [...COMPANY_SETTINGS, ...SCHEDULE_SETTINGS].filter(
  name => name !== 'COMPANY',
)

const value = z.union([
  z.string(),
  z.number().transform(String),
  z.boolean().transform(String),
  z.array(z.union([z.string(), z.number()])).transform(list => list.join(',')),
])
const settings = z
  .record(z.string(), value)
  .nullable()
  .transform(all => all ?? {})
const document = z.strictObject({
  defaults: settings.optional(),
  companies: z.record(slug, settings),
})

type Settings = Readonly<Record<string, string>>

/** The companies by slug, each with the variables that hold for it alone; the key is looked up at each run. */
export type Companies = {
  /** Absolute; null where a single company is configured by the environment alone. */
  readonly file: string | null
  readonly environments: ReadonlyMap<string, Environment>
}

/** Where the companies are configured: absolute, and whether somebody said so. */
export function companiesFile(environment: Environment): { path: string; named: boolean } {
  const named = environment.COMPANIES_FILE?.trim()
  return { path: resolve(named || DEFAULT_FILE), named: Boolean(named) }
}

/**
 * Reads the companies' file; without one there is one company, and the environment is about it.
 * @throws FatalError (usage) saying what is wrong at which company, all of it at once.
 */
export async function readCompanies(environment: Environment): Promise<Companies> {
  const { path } = companiesFile(environment)
  const text = await readCompaniesFile(path)
  if (text === null) {
    const { company } = readSettings(environment)
    return { file: null, environments: new Map([[company, environment]]) }
  }
  const { defaults = {}, companies } = await parseDocument(path, text)
  const problems: string[] = []
  const environments = new Map<string, Environment>()
  for (const [company, own] of Object.entries(companies)) {
    try {
      environments.set(company, companyEnvironment(environment, { company, defaults, own }))
    } catch (error) {
      if (!(error instanceof FatalError)) throw error
      problems.push(...error.message.split('\n').map(problem => `${path}: ${company}: ${problem}`))
    }
  }
  if (problems.length > 0) throw new FatalError(problems.join('\n'), EXIT.usage)
  return { file: path, environments }
}

/**
 * What holds for the company that a command is about.
 * @throws FatalError (usage) when the companies' file does not know it, or knows several and none was named.
 */
export async function environmentOf(environment: Environment, company?: string): Promise<Environment> {
  if (company !== undefined && !slug.safeParse(company).success) {
    throw new FatalError(`--company ${company || '""'}: ${SLUG_RULE}.`, EXIT.usage)
  }
  const named = company ?? (environment.COMPANY?.trim() || undefined)
  const { file, environments } = await readCompanies({ ...environment, ...(named ? { COMPANY: named } : {}) })
  const slugs = [...environments.keys()]
  if (file && named === undefined && slugs.length !== 1) {
    throw new FatalError(`Which company? ${file} has ${slugs.join(', ')}. Say --company.`, EXIT.usage)
  }
  const own = environments.get(named ?? (slugs[0] as string))
  if (own) return own
  throw new FatalError(`${named} is not in ${file}, which has ${slugs.join(', ')}.`, EXIT.usage)
}

async function readCompaniesFile(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw new FatalError(`${path} cannot be read: ${systemCode(error) ?? messageOf(error)}.`, EXIT.usage)
  }
}

async function parseDocument(path: string, text: string): Promise<z.output<typeof document>> {
  // Loaded only where there is such a file: commands of a single company start sooner.
  const { parseDocument: parseYaml } = await import('yaml')
  const yaml = parseYaml(text)
  const [syntax] = yaml.errors
  if (syntax) throw new FatalError(`${path}: ${messageOf(syntax).replace(/:$/, '.')}`, EXIT.usage)
  const result = document.safeParse(yaml.toJS())
  if (result.success) return result.data
  const problems = result.error.issues.map(issue => `${path}: ${problemOf(issue)}.`)
  throw new FatalError(
    `${problems.join('\n')}\nSee config/companies.example.yaml for what it looks like.`,
    EXIT.usage,
  )
}

function problemOf(issue: z.core.$ZodIssue): string {
  // Quoted: what is no name may be empty, or look like one.
  if (issue.code === 'invalid_key') return `companies: ${JSON.stringify(issue.path.at(-1))} ${SLUG_RULE}`
  return `${issue.path.join('.') || 'the file'}: ${issue.message}`
}

/** The worker's environment under the company's own settings, with its key alone. */
function companyEnvironment(
  environment: Environment,
  { company, defaults, own }: { company: string; defaults: Settings; own: Settings },
): Environment {
  const all = { ...upperCase(defaults), ...upperCase(own) }
  for (const name of Object.keys(all)) refuseUnknown(name)
  const { API_KEY_ENV: keyVariable, API_KEY_FILE: keyFile, ...rest } = all
  if (Boolean(keyVariable) === Boolean(keyFile)) {
    throw new FatalError('give its key as api_key_file (a path) or api_key_env (a variable).', EXIT.usage)
  }
  if (keyVariable && !VARIABLE.test(keyVariable)) {
    // It may be the key itself, so it is not repeated.
    throw new FatalError(
      'api_key_env must be the name of a variable, such as ACME_API_KEY; the key itself belongs into that variable.',
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

function upperCase(settings: Settings): Settings {
  return Object.fromEntries(Object.entries(settings).map(([name, text]) => [name.toUpperCase(), text]))
}

function refuseUnknown(name: string): void {
  const shown = name.toLowerCase()
  if (name === 'API_KEY') {
    throw new FatalError(
      'api_key: a key does not belong into this file. Give the path of its file as api_key_file, or the name of a variable as api_key_env.',
      EXIT.usage,
    )
  }
  if (OWN_NAMES.includes(name) || name === 'API_KEY_ENV' || name === 'API_KEY_FILE') return
  throw new FatalError(
    `${shown} is no setting of a company. Those are ${OWN_NAMES.map(known => known.toLowerCase()).join(', ')}, api_key_file and api_key_env; others are set in the environment, for all.`,
    EXIT.usage,
  )
}
