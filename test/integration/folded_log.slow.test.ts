import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { foldLog, startWithHistory } from '#test/support/folded_log.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'
import { dataTables, type Tables, warehouseTables } from '#test/support/tables.ts'
import { asked, expectTruth } from '#test/support/truth.ts'

/** A folded log lacks the lists of replaced analyses, so the history of requirements and alerts begins with the latest one. */
function withoutLists(tables: Tables): Tables {
  const { requirement_versions: _, alert_versions: __, ...others } = tables
  return others
}

test('a log that an earlier version folded into fewer segments gives the same tables, and a run continues it', async () => {
  const company = await startWithHistory()
  await company.syncHere({ full: true })
  const { environment, world } = company
  const rowsOf = async () => dataTables(await warehouseTables(environment, ['_segment', '_seq']))
  const before = await rowsOf()
  const root = companyDirectory(environment)
  await rename(join(root, 'raw'), join(root, 'raw.before'))
  expect(await foldLog(join(root, 'raw.before'), join(root, 'raw'))).toEqual({
    lists: 2,
    bytes: 2,
    lines: 17,
  })
  await rm(join(root, 'warehouse.duckdb'))

  expect((await runShared(['rebuild'], environment)).code).toBe(0)
  expect(withoutLists(await rowsOf())).toEqual(withoutLists(before))
  expect((await runShared(['doctor'], environment)).stdout).toContain('No problems found.')
  world.update(idOf(8), { edital: { objeto: 'Mudou' }, updatedAt: new Date() })
  await company.syncHere()
  expect(asked(company, 'analysis')).toEqual([idOf(8)])
  await expectTruth(company)
  const after = await rowsOf()
  expect((await runShared(['rebuild'], environment)).code).toBe(0)
  expect(await rowsOf()).toEqual(after)
})

test('if an earlier version was killed while it swapped the logs, nothing begins another log, and a person puts it back', async () => {
  const company = await startSynced(notices(1, 3))
  const { environment } = company
  const before = await warehouseTables(environment, ['warehouse_id'])
  const root = companyDirectory(environment)
  await rename(join(root, 'raw'), join(root, 'raw.before'))
  await mkdir(join(root, 'tmp/raw'), { recursive: true })
  await foldLog(join(root, 'raw.before'), join(root, 'tmp/raw'))
  await rm(join(root, 'warehouse.duckdb'))
  const left = await readdir(root, { recursive: true })

  for (const command of [['sync'], ['publish'], ['rebuild', '--salvage'], ['restore']]) {
    const { code, stderr } = await runShared(command, environment)
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining(`Rename ${root}/raw.before to ${root}/raw, then run this again`),
    })
  }
  expect((await readdir(root, { recursive: true })).sort()).toEqual(left.sort())

  await rename(join(root, 'raw.before'), join(root, 'raw'))
  expect((await runShared(['publish'], environment)).code).toBe(0)
  expect(await warehouseTables(environment, ['warehouse_id'])).toEqual(before)
  expect(await company.syncHere()).toMatchObject({ status: 'ok', unchanged: 3 })
})
