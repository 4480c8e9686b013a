import { readdir, stat } from 'node:fs/promises'
import { environmentOf, namesOf, readCompanies } from '#config/companies.ts'
import { type Environment, readSettings, SLUG_RULE, slug } from '#config/settings.ts'
import { EXIT, FatalError } from '#src/platform/errors.ts'
import { companyPaths } from '#src/store/company.ts'

/**
 * The company that is meant: one that is configured, or was and still has data.
 * @throws FatalError (usage) for others, naming those that are known.
 */
export async function knownCompany(
  environment: Environment,
  dataDir: string,
  company: string | undefined,
): Promise<string> {
  if (company === undefined) return readSettings(await environmentOf(environment)).company
  if (!slug.safeParse(company).success)
    throw new FatalError(`--company ${company || '""'}: ${SLUG_RULE}.`, EXIT.usage)
  const { file, environments, broken } = await readCompanies(environment)
  const configured = [...environments.keys(), ...broken.keys()]
  const known = new Set([...configured, ...(await companiesWithData(dataDir))])
  if (known.has(company)) return company
  const names = namesOf([...known].sort())
  throw new FatalError(
    `--company ${company}: no such company; ${names ? `known are ${names}` : 'none is known yet'}. Check the name, or add the company ${file ? `to ${file}` : 'as COMPANY or in config/companies.yaml'} first.`,
    EXIT.usage,
  )
}

async function companiesWithData(dataDir: string): Promise<string[]> {
  const entries = (await isDirectory(dataDir)) ? await readdir(dataDir) : []
  const found: string[] = []
  for (const name of entries) {
    if (slug.safeParse(name).success && (await isDirectory(companyPaths(dataDir, name).lake)))
      found.push(name)
  }
  return found
}

async function isDirectory(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isDirectory() ?? false
}
