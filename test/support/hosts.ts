import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { BUCKET, type S3Server, startS3, writeCredentials } from '#tools/s3_server.ts'
import { type Environment, temporaryDirectory } from './project.ts'
import { companyAt, type SyncedCompany } from './synced.ts'

/** Keys of the company's log begin with it. */
export const LOG = 'shared/acme/log'

/** An object store in memory for logs, and the settings of hosts that use it. */
export async function startSharedLog(): Promise<{ s3: S3Server; settings: Environment }> {
  const s3 = await startS3()
  onTestFinished(() => s3.close())
  const settings = {
    LOG_URL: `s3://${BUCKET}/shared`,
    S3_ENDPOINT: s3.url,
    S3_CREDENTIALS_FILE: await writeCredentials(join(await temporaryDirectory(), 'key'), 'id', 'secret'),
  }
  return { s3, settings }
}

/** The same company on another host, with an empty disk. */
export async function anotherHost(company: SyncedCompany): Promise<SyncedCompany> {
  const environment = { ...company.environment, DATA_DIR: await temporaryDirectory() }
  return companyAt(company.sandbox, company.world, environment)
}

export function segmentsIn({ objects }: S3Server): string[] {
  return [...objects.keys()].filter(key => key.startsWith(LOG)).sort()
}
