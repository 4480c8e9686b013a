import { cp, realpath, rename, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment } from '#test/support/project.ts'
import { startCompany } from '#test/support/synced.ts'
import { snapshots } from '#test/support/truth.ts'

async function latest(environment: Environment): Promise<string> {
  return await realpath(join(companyDirectory(environment), 'lake/latest'))
}

test('snapshots of a log that was longer before it was restored from a backup expire as others', async () => {
  const company = await startCompany(notices(1, 3), { SNAPSHOT_KEEP: '0s' })
  const { world, environment } = company
  const raw = join(companyDirectory(environment), 'raw')
  const change = async (version: number) => {
    world.update(idOf(1), { edital: { numero: `${version}/2026` } })
    await company.syncHere()
    return basename(await latest(environment))
  }
  await change(1)
  const backup = join(environment.DATA_DIR as string, 'backup')
  await cp(raw, backup, { recursive: true })
  for (const version of [2, 3, 4, 5]) await change(version)
  await rm(raw, { recursive: true })
  await rename(backup, raw)
  await rm(join(companyDirectory(environment), 'warehouse.duckdb'))
  const published = [await change(6), await change(7)]
  expect((await snapshots(environment)).sort()).toEqual(published)
})
