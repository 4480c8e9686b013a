import { onTestFinished } from 'vitest'
import { startSandbox } from '#src/sandbox/server.ts'
import type { World } from '#src/sandbox/world.ts'
import { settingsFor, temporaryDirectory } from './project.ts'
import { companyAt, KEY, type SyncedCompany } from './synced.ts'
import { dataTables, type Tables, warehouseTables } from './tables.ts'

/** The key of the second company; the first one has `KEY`. */
export const OTHER_KEY = 'edk_test_other_7b21'

/** Starts two companies in one sandbox, with one data directory. */
export async function startTwo(
  acme: World,
  other: World,
): Promise<{ acme: SyncedCompany; other: SyncedCompany }> {
  const sandbox = await startSandbox({
    companies: [
      { slug: 'acme', key: KEY, world: acme },
      { slug: 'other', key: OTHER_KEY, world: other },
    ],
  })
  onTestFinished(() => sandbox.close())
  const shared = { url: sandbox.url, dataDir: await temporaryDirectory() }
  return {
    acme: companyAt(sandbox, acme, settingsFor({ ...shared, key: KEY })),
    other: companyAt(sandbox, other, settingsFor({ ...shared, key: OTHER_KEY, company: 'other' })),
  }
}

/** Reads the rows of a company's warehouse. */
export async function readTables({ environment }: SyncedCompany): Promise<Tables> {
  return dataTables(await warehouseTables(environment))
}

/** Lists the ids of the notices that are deleted. */
export async function listDeleted(company: SyncedCompany): Promise<unknown[]> {
  const rows = await company.query(
    'SELECT edital_id AS id FROM editais WHERE deleted_at IS NOT NULL ORDER BY ALL',
  )
  return rows.map(({ id }) => id)
}
