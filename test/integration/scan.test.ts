import { expect, test } from 'vitest'
import { bareNotice } from '#test/support/notices.ts'
import { type SyncedCompany, startSynced } from '#test/support/synced.ts'

/** Three pages of up to 200, starting at 0, 199 and 398: neighbours share one notice. */
const NOTICES = 450
/** Only the list matters here; sequential pages let changes happen at known points. */
const SETTINGS = { ANALYSIS_STATUSES: 'ready', API_CONCURRENCY: '1' }
const TAIL = { created_at: '2020-01-01T00:00:00Z', updated_at: '2020-01-01T00:00:00Z' }

/** After a first run. */
async function startListed(): Promise<SyncedCompany> {
  return await startSynced(
    Array.from({ length: NOTICES }, (_, index) => bareNotice(index + 1)),
    SETTINGS,
  )
}

/** The ids in the order of the list. */
async function listing({ world }: SyncedCompany): Promise<string[]> {
  const { editais } = await world.list({ statuses: null, limit: Number.POSITIVE_INFINITY, offset: 0 })
  return editais.map(edital => (edital as { id: string }).id)
}

/** Runs a step just before the page at its offset is sent, in the first `passes` passes. */
function beforePage(
  company: SyncedCompany,
  steps: Record<number, (pass: number) => void>,
  passes: number,
): void {
  const times = new Map<number, number>()
  company.faults.onRequest = ({ kind, offset }) => {
    if (kind !== 'list' || offset === null) return
    const pass = (times.get(offset) ?? 0) + 1
    times.set(offset, pass)
    if (pass <= passes) steps[offset]?.(pass)
  }
}

async function liveIds(company: SyncedCompany): Promise<string[]> {
  const rows = await company.query<{ id: string }>(
    'SELECT edital_id AS id FROM editais WHERE deleted_at IS NULL ORDER BY ALL',
  )
  return rows.map(({ id }) => id)
}

test('a removal that moves the list up loses no notice', async () => {
  const company = await startListed()
  const removed = (await listing(company))[7] as string
  beforePage(company, { 398: () => company.world.remove(removed) }, 1)
  // It was still there when the first page was read; the next run finds it missing.
  const report = await company.syncHere()
  expect(report).toMatchObject({ scan_passes: 2, scan_complete: true, listed: NOTICES, tombstoned: 0 })
  expect(await company.syncHere()).toMatchObject({ scan_passes: 1, listed: NOTICES - 1, tombstoned: 1 })
  expect(await liveIds(company)).toEqual(company.world.ids().sort())
})

test('a notice that always moves behind the reader is requested by its id, and updated in the same run', async () => {
  const company = await startListed()
  const { world } = company
  world.setOrder('updated_at')
  const jumping = (await listing(company))[300] as string
  beforePage(
    company,
    {
      // Puts it ahead of the reader again in the second pass.
      0: pass => pass === 2 && world.update(jumping, { edital: TAIL }),
      199: pass =>
        world.update(jumping, {
          edital: { numero: `versão ${pass}` },
          updatedAt: new Date(Date.UTC(2027, 0, pass)),
        }),
    },
    2,
  )
  const report = await company.syncHere()
  expect(report).toMatchObject({ listed: NOTICES, scan_passes: 2, scan_complete: false, changed: 1 })
  expect(report).toMatchObject({ tombstoned: 0, status: 'ok' })
  expect(
    await company.query(`SELECT numero, deleted_at FROM editais WHERE edital_id = '${jumping}'`),
  ).toEqual([{ numero: 'versão 2', deleted_at: null }])
  expect(await liveIds(company)).toEqual(world.ids().sort())
})
