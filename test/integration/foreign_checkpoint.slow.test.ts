import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { alterWarehouse } from '#test/support/forged.ts'
import { anotherHost, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import { companyDirectory, temporaryDirectory } from '#test/support/project.ts'
import { startCompany } from '#test/support/synced.ts'
import { expectTruth } from '#test/support/truth.ts'

/** A company with a checkpoint in the store, and hosts with empty disks. */
async function startWithCheckpoint() {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 12), settings)
  for (let run = 0; run < 11; run += 1) await first.syncHere()
  return { s3, first, another: () => anotherHost(first) }
}

const isWholeLogThere = (dataDirectory: string) => existsSync(join(dataDirectory, 'raw/000001.ndjson.zst'))

test('a checkpoint whose table is a view cannot read a file of the worker', async () => {
  const { s3, another } = await startWithCheckpoint()
  const secret = join(await temporaryDirectory(), 'secret')
  await writeFile(secret, 'the worker alone may read this')
  await alterWarehouse(
    s3,
    `ALTER TABLE schema_drift RENAME TO old_drift;
     CREATE VIEW schema_drift AS SELECT * REPLACE ((SELECT content FROM read_text('${secret}')) AS sample) FROM (
       FROM old_drift UNION ALL BY NAME SELECT 'x' AS path, 'new_field' AS kind)`,
  )
  const host = await another()
  expect(await host.sync(['--full'])).toMatchObject({ status: 'ok' })
  const drift = await host.query('SELECT * FROM schema_drift')
  expect(JSON.stringify(drift)).not.toContain('the worker alone')
  expect(isWholeLogThere(companyDirectory(host.environment))).toBe(true)
  await expectTruth(host)
})
