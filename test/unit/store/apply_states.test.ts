import { describe, expect, it } from 'vitest'
import type { Row } from '#src/core/warehouse/database.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import {
  analysisLine,
  comparedTime,
  goneLine,
  metaOf,
  minutesLater,
  noticeLine,
  openApplied,
  openWarehouseCase,
  rejectedLine,
  sameLine,
  stateOf,
  type TestLine,
  touchedBy,
  type WarehouseCase,
} from '#test/support/warehouse.ts'

const LATER = '2026-11-25T00:00:00.000Z'
/** The month of `noticeEntry(1)`. */
const MONTH = '2026-11'
const entry = noticeEntry(1)

async function openLoaded(): Promise<WarehouseCase> {
  return await openApplied(noticeLine(entry), analysisLine(entry))
}

describe('the state of an analysis', () => {
  it('is pending until it was fetched for the stored updated_at, and current from then on', async () => {
    const warehouse = await openApplied(noticeLine(entry))
    expect(await stateOf(warehouse, idOf(1))).toBe('pending')
    await warehouse.apply(analysisLine(entry, { updated_at: LATER, source_updated_at: LATER }))
    expect(await stateOf(warehouse, idOf(1))).toBe('pending')
    await warehouse.apply(analysisLine(entry))
    expect(await stateOf(warehouse, idOf(1))).toBe('current')
  })

  it('is pending again when its notice changes, although updated_at is the same', async () => {
    const warehouse = await openLoaded()
    expect(await stateOf(warehouse, idOf(1))).toBe('current')
    const changed = noticeEntry(1, { objeto: 'Outro objeto' })
    await warehouse.apply(noticeLine(changed))
    expect(await stateOf(warehouse, idOf(1))).toBe('pending')
    await warehouse.apply(sameLine(changed))
    expect(await stateOf(warehouse, idOf(1))).toBe('current')
    // That is published, so it is new data, although the analysis is unchanged.
    expect(await metaOf(warehouse)).toMatchObject({ data_version: 3 })
  })

  it('is quarantined if one for the stored updated_at was not usable', async () => {
    const warehouse = await openApplied(...notices(1, 2).map(each => noticeLine(each)))
    await warehouse.apply(rejectedLine(entry), rejectedLine(noticeEntry(2), { updated_at: LATER }))
    expect(await stateOf(warehouse, idOf(1))).toBe('quarantined')
    expect(await stateOf(warehouse, idOf(2))).toBe('pending')
    expect(await touchedBy(warehouse, 2)).toEqual({ [MONTH]: ['editais'] })
  })

  it('is excluded if the last run fetches no analyses of its phase, unless it is current', async () => {
    const all = [
      noticeEntry(1, { status: 'discarded' }),
      noticeEntry(2, { status: 'discarded' }),
      noticeEntry(3),
    ]
    const warehouse = await openApplied(...all.map(each => noticeLine(each)))
    await warehouse.apply(analysisLine(all[1] ?? entry))
    await warehouse.apply({
      type: 'run_started',
      run_id: 'r2',
      mode: 'full',
      analysis_statuses: ['analysis'],
    })
    expect(await stateOf(warehouse, idOf(1))).toBe('excluded')
    expect(await stateOf(warehouse, idOf(2))).toBe('current')
    expect(await stateOf(warehouse, idOf(3))).toBe('pending')
    expect(await metaOf(warehouse)).toMatchObject({ data_version: 3 })
    await warehouse.apply({ type: 'run_started', run_id: 'r3', mode: 'full', analysis_statuses: [] })
    expect(await stateOf(warehouse, idOf(1))).toBe('pending')
  })
})

describe('a record that cannot be used', () => {
  it('is tried again after a quarter of an hour, then after twice as long each time, up to a day', async () => {
    const warehouse = await openApplied(noticeLine(entry), rejectedLine(entry))
    expect(await waitOf(warehouse)).toEqual({ attempts: 1, minutes: 15 })
    for (const [attempts, minutes] of [
      [2, 30],
      [7, 960],
      [8, 1440],
      [99, 1440],
    ]) {
      await warehouse.db.run(`UPDATE quarantine SET attempts = ${Number(attempts) - 1}`)
      await warehouse.apply(rejectedLine(entry, { hash: `h${attempts}` }))
      expect(await waitOf(warehouse)).toEqual({ attempts, minutes })
    }
  })

  /** Of the one record that is in quarantine. */
  async function waitOf({ db }: WarehouseCase): Promise<Row> {
    return await db.row(
      `SELECT attempts, date_diff('minute', observed_at, next_attempt_at) AS minutes FROM quarantine WHERE resolved_at IS NULL`,
    )
  }

  it('starts counting anew with another updated_at', async () => {
    const warehouse = await openApplied(noticeLine(entry), rejectedLine(entry))
    await warehouse.apply(rejectedLine(entry))
    await warehouse.apply(
      rejectedLine(entry, { updated_at: LATER, reason: 'another', path: 'a.b', excerpt: 'x' }),
    )
    expect(await warehouse.db.rows('SELECT * FROM quarantine')).toMatchObject([
      {
        ...{
          edital_id: idOf(1),
          kind: 'analysis',
          attempts: 1,
          reason: 'another',
          path: 'a.b',
          body_excerpt: 'x',
        },
        _updated_at: (await warehouse.db.row(`SELECT ${comparedTime(LATER)} AS time`)).time,
        _segment: 3,
        _seq: 1,
        resolved_at: null,
      },
    ])
  })

  it('is closed by a usable one of its kind, and by no other', async () => {
    const [asNotice, asAnalysis] = (['notice', 'analysis'] as const).map(kind =>
      rejectedLine(entry, { kind }),
    ) as [TestLine, TestLine]
    const warehouse = await openApplied(noticeLine(entry))
    await warehouse.apply(asNotice, asAnalysis, rejectedLine(noticeEntry(2)))
    const open = async () => {
      const sql = 'SELECT edital_id, kind FROM quarantine WHERE resolved_at IS NULL ORDER BY ALL'
      return (await warehouse.db.rows(sql)).map(({ edital_id, kind }) => `${edital_id} ${kind}`)
    }
    expect(await open()).toEqual([`${idOf(1)} analysis`, `${idOf(1)} notice`, `${idOf(2)} analysis`])
    await warehouse.apply(noticeLine(entry))
    expect(await open()).toEqual([`${idOf(1)} analysis`, `${idOf(2)} analysis`])
    await warehouse.apply(analysisLine(entry))
    expect(await open()).toEqual([`${idOf(2)} analysis`])
    await warehouse.apply(goneLine(noticeEntry(2)))
    expect(await open()).toEqual([])
  })

  it('without an id is known by its bytes, even if it is no longer listed', async () => {
    const nameless = rejectedLine(entry, { edital_id: null, kind: 'notice', updated_at: undefined })
    const warehouse = await openApplied(nameless, { ...nameless, hash: 'h2' })
    await warehouse.apply(nameless)
    const sql = 'SELECT _hash AS hash, attempts, resolved_at IS NULL AS open FROM quarantine ORDER BY ALL'
    expect(await warehouse.db.rows(sql)).toEqual([
      { hash: 'h1', attempts: 2, open: true },
      { hash: 'h2', attempts: 1, open: true },
    ])
    await warehouse.apply({ type: 'gone', edital_id: null, hash: 'h1' })
    expect(await warehouse.db.rows(sql)).toMatchObject([{ open: false }, { open: true }])
  })

  it('that is resolved is published, even if the analysis is unchanged', async () => {
    const warehouse = await openLoaded()
    // For a later updated_at, so the state of the notice stays the same.
    await warehouse.apply(rejectedLine(entry, { updated_at: LATER }))
    await warehouse.apply(sameLine(entry, { at: minutesLater(5) }))
    expect(await stateOf(warehouse, idOf(1))).toBe('current')
    expect(await metaOf(warehouse)).toMatchObject({ applied_segment: 3, data_version: 3 })
    await warehouse.apply(sameLine(entry, { at: minutesLater(6) }))
    expect(await metaOf(warehouse)).toMatchObject({ applied_segment: 4, data_version: 3 })
  })

  it('is set aside alone if no statement could load it, and the rest of its segment is loaded', async () => {
    const warehouse = await openWarehouseCase()
    const poison = noticeLine(noticeEntry(2, { valor_estimado: 'much' }))
    const { setAside } = await warehouse.apply(noticeLine(entry), poison, noticeLine(noticeEntry(3)))
    expect(setAside).toEqual([idOf(2)])
    expect(await warehouse.db.rows('SELECT edital_id FROM editais ORDER BY ALL')).toEqual([
      { edital_id: idOf(1) },
      { edital_id: idOf(3) },
    ])
    expect(await warehouse.db.rows('SELECT edital_id, kind, _seq FROM quarantine')).toEqual([
      { edital_id: idOf(2), kind: 'notice', _seq: 3 },
    ])
  })
})
