import { existsSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { joinNames, loadCompanyEnvironment, readCompanies } from '#config/companies.ts'
import { type Environment, readSettings, SLUG_RULE, slug } from '#config/settings.ts'
import { companyPaths } from '#src/core/company/company.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
/**
 * Returns the company that a command is for: it is configured, or it has data from when it was.
 * @throws FatalError (usage) for any other company; the message lists the known ones.
 */
export async function findKnownCompany(
  environment: Environment,
  dataDir: string,
  company: string | undefined,
): Promise<string> {
  if (company === undefined) return readSettings(await loadCompanyEnvironment(environment)).company
  if (!slug.safeParse(company).success)
    throw new FatalError(`--company ${company || '""'}: ${SLUG_RULE}.`, EXIT.usage)
  const { file, environments, broken } = await readCompanies(environment)
  const configured = [...environments.keys(), ...broken.keys()]
  const known = new Set([...configured, ...(await companiesWithData(dataDir))])
  if (known.has(company)) return company
  const names = joinNames([...known].sort())
  throw new FatalError(
    `--company ${company}: no such company. Known companies: ${names || 'none yet'}. Check the name, or first add the company ${file ? `to ${file}` : 'as COMPANY or in config/companies.yaml'}.`,
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

/**
 * Throws FatalError (usage) if nothing of the company is on this disk or in the shared log: a mistyped company must not leave a
 * directory here, or an owner in the object store.
 */
export async function assertHasData({ paths, settings, sharedLog }: CompanyContext): Promise<void> {
  if (existsSync(paths.root) || (await sharedLog?.standing()) === 'later') return
  const { dataDir, company } = settings
  if (sharedLog === null)
    throw new FatalError(
      `${dataDir} has no data of company ${company}. Check COMPANY and DATA_DIR.`,
      EXIT.usage,
    )
  await sharedLog.release()
  throw new FatalError(
    `Neither ${dataDir} nor ${sharedLog.root} has data of company ${company}. Check COMPANY, DATA_DIR and LOG_URL.`,
    EXIT.usage,
  )
}
