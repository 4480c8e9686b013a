import { realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listSealedSegments, segmentPath } from '#src/core/rawlog/files.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, runCommand } from '#test/support/project.ts'
import { startCompany } from '#test/support/synced.ts'

test('a rebuild from a log that lost its end is published, and stays the latest', async () => {
  const company = await startCompany(notices(1, 6), { SNAPSHOT_KEEP: '1ms' })
  const { environment } = company
  await company.syncHere()
  const end = (await listSealedSegments(join(companyDirectory(environment), 'raw'))).length
  for (const n of [1, 2, 3]) {
    company.world.update(idOf(n), { updatedAt: new Date(Date.UTC(2026, 10, 20, n)) })
    await company.syncHere()
  }
  const raw = join(companyDirectory(environment), 'raw')
  for (const number of (await listSealedSegments(raw)).slice(end)) await rm(segmentPath(raw, number))
  expect((await runCommand(['rebuild'], environment)).code).toBe(0)
  expect(await company.query('SELECT count(*) AS n FROM editais')).toEqual([{ n: 6 }])
  const rebuilt = await realpath(join(companyDirectory(environment), 'lake/latest'))
  expect((await runCommand(['publish'], environment)).stdout).toContain(`Already published: ${rebuilt}`)
  expect(await company.syncHere()).toMatchObject({ status: 'ok', changed: 3, loaded: 3 })
  expect(await company.query('SELECT count(*) AS n FROM analyses')).toEqual([{ n: 6 }])
})
