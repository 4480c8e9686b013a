import { existsSync } from 'node:fs'
import type { CompanyContext } from '#src/extras/extra.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'

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
