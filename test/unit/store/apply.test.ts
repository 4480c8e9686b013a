import { describe, expect, it } from 'vitest'
import { TABLES } from '#schema/tables.ts'
import { FatalError } from '#src/lib/errors.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import {
  analysisLine,
  comparedTime,
  goneLine,
  metaOf,
  minutesLater,
  noticeLine,
  openApplied,
  openWarehouseCase,
  STARTED,
  sameLine,
  stateOf,
  type TestLine,
  touchedBy,
  type WarehouseCase,
} from '#test/support/warehouse.ts'

const LATER = '2026-11-25T00:00:00.000Z'
/** The month of `noticeEntry(1)`, and the one that a test moves it to. */
const [MONTH, OTHER_MONTH] = ['2026-11', '2026-12']
const MONTHLY = TABLES.filter(({ files }) => files === 'by_month').map(({ name }) => name)
const OF_ANALYSES = TABLES.filter(({ document }) => document === 'analysis').map(({ name }) => name)

const entry = noticeEntry(1)

async function openLoaded(): Promise<WarehouseCase> {
  return await openApplied(noticeLine(entry), analysisLine(entry))
}

describe('a notice', () => {
  it('that is new is stored with the time when it was first seen, and its version is kept', async () => {
    const warehouse = await openApplied(noticeLine(entry, { at: minutesLater(1) }))
    const seen = new Date(minutesLater(1))
    expect(await warehouse.db.rows('SELECT * FROM editais')).toMatchObject([
      {
        ...{
          edital_id: idOf(1),
          status: 'analysis',
          analysis_state: 'pending',
          deleted_at: null,
          _segment: 1,
        },
        first_seen_at: seen,
        changed_at: seen,
        ...(await warehouse.db.row(`SELECT ${comparedTime(entry.edital.updated_at)} AS _updated_at`)),
        run_id: 'r1',
      },
    ])
    expect(await warehouse.db.rows('SELECT edital_id, observed_at FROM edital_versions')).toEqual([
      { edital_id: idOf(1), observed_at: seen },
    ])
    expect(await touchedBy(warehouse, 1)).toEqual({ [MONTH]: ['editais', 'edital_versions'] })
  })

  it('that changed replaces its row, keeps the time when it was first seen, and adds a version', async () => {
    const warehouse = await openApplied(noticeLine(entry))
    await warehouse.apply(noticeLine(noticeEntry(1, { status: 'ready' }), { at: minutesLater(5) }))
    expect(await warehouse.db.rows('SELECT * FROM editais')).toMatchObject([
      {
        status: 'ready',
        first_seen_at: new Date(STARTED),
        changed_at: new Date(minutesLater(5)),
        _segment: 2,
      },
    ])
    expect(await warehouse.db.rows('SELECT status FROM edital_versions ORDER BY observed_at')).toEqual([
      { status: 'analysis' },
      { status: 'ready' },
    ])
  })

  it('that is shown again is no longer deleted', async () => {
    const warehouse = await openApplied(noticeLine(entry))
    await warehouse.apply(goneLine(entry, { at: minutesLater(5) }))
    expect(await warehouse.db.row('SELECT deleted_at FROM editais')).toEqual({
      deleted_at: new Date(minutesLater(5)),
    })
    expect(await touchedBy(warehouse, 2)).toEqual({ [MONTH]: ['editais'] })
    await warehouse.apply(noticeLine(entry, { at: minutesLater(9) }))
    expect(await warehouse.db.row('SELECT deleted_at FROM editais')).toEqual({ deleted_at: null })
    // Its time away is kept.
    expect(
      await warehouse.db.rows('SELECT observed_at, gone_since FROM edital_versions ORDER BY observed_at'),
    ).toEqual([
      { observed_at: new Date(STARTED), gone_since: null },
      { observed_at: new Date(minutesLater(9)), gone_since: new Date(minutesLater(5)) },
    ])
  })

  it('that moves to another month makes all files of both months stale', async () => {
    const warehouse = await openLoaded()
    await warehouse.apply(noticeLine(noticeEntry(1, { created_at: `${OTHER_MONTH}-01T00:00:00Z` })))
    const all = [...MONTHLY].sort()
    expect(await touchedBy(warehouse, 2)).toEqual({ [MONTH]: all, [OTHER_MONTH]: all })
  })

  it('has the same fingerprint here as when it is listed', async () => {
    const warehouse = await openApplied(noticeLine(entry))
    await warehouse.list(entry)
    expect(
      await warehouse.db.rows(
        'SELECT list_fields = _list_fields AS same FROM editais JOIN listed USING (edital_id)',
      ),
    ).toEqual([{ same: true }])
  })
})

describe('an analysis', () => {
  it('is stored with all its parts, and makes its tables’ files stale', async () => {
    const warehouse = await openApplied(noticeLine(entry))
    await warehouse.apply(analysisLine(entry, { at: minutesLater(3) }))
    expect(await warehouse.db.rows('SELECT * FROM analyses')).toMatchObject([
      {
        edital_id: idOf(1),
        ...(await warehouse.db.row(`SELECT ${comparedTime(entry.edital.updated_at)} AS _source_updated_at`)),
        _segment: 2,
        source_updated_at: new Date(entry.edital.updated_at),
        fetched_at: new Date(minutesLater(3)),
      },
    ])
    for (const [table, count] of Object.entries({
      requirements: 2,
      items: 3,
      alerts: 1,
      analysis_versions: 1,
    }))
      expect(await warehouse.db.row(`SELECT count(*) AS count FROM ${table}`), table).toEqual({ count })
    // The state of the notice changed, too.
    expect(await touchedBy(warehouse, 2)).toEqual({ [MONTH]: [...OF_ANALYSES, 'editais'].sort() })
  })

  it('replaces the previous one, of which only the version is left', async () => {
    const other = noticeEntry(2)
    const warehouse = await openApplied(
      ...[entry, other].flatMap(each => [noticeLine(each), analysisLine(each)]),
    )
    const { analysis } = noticeEntry(1, {}, { requirements: [], items: [{ numero_item: 9 }], alerts: [] })
    await warehouse.apply(analysisLine({ edital: entry.edital, analysis }))
    const { db } = warehouse
    expect(
      await db.rows('SELECT edital_id, count(*) AS count FROM analyses GROUP BY ALL ORDER BY ALL'),
    ).toEqual([
      { edital_id: idOf(1), count: 1 },
      { edital_id: idOf(2), count: 1 },
    ])
    expect(await db.rows(`SELECT numero_item FROM items WHERE edital_id = '${idOf(1)}'`)).toEqual([
      { numero_item: 9 },
    ])
    for (const [table, count] of Object.entries({
      requirements: 2,
      items: 4,
      alerts: 1,
      analysis_versions: 3,
    }))
      expect(await db.row(`SELECT count(*) AS count FROM ${table}`), table).toEqual({ count })
  })

  it('that was read again and is unchanged has another time, and is not new data', async () => {
    const warehouse = await openLoaded()
    await warehouse.apply(sameLine(entry, { at: minutesLater(9) }))
    expect(await warehouse.db.row('SELECT fetched_at, _segment FROM analyses')).toEqual({
      fetched_at: new Date(minutesLater(9)),
      _segment: 2,
    })
    expect(await metaOf(warehouse)).toMatchObject({ applied_segment: 2, data_version: 1 })
    expect(await touchedBy(warehouse, 2)).toEqual({ [MONTH]: ['analyses'] })
    expect(await warehouse.db.row('SELECT count(*) AS count FROM analysis_versions')).toEqual({ count: 1 })
  })

  it('that was received long ago and is usable only now keeps its original time and place', async () => {
    const warehouse = await openApplied(noticeLine(entry))
    await warehouse.apply(noticeLine(noticeEntry(1, { status: 'ready' })))
    await warehouse.apply(analysisLine(entry, { fetched_at: STARTED, fetched_in: 1, at: minutesLater(60) }))
    expect(await warehouse.db.row('SELECT fetched_at, _segment FROM analyses')).toEqual({
      fetched_at: new Date(STARTED),
      _segment: 1,
    })
    expect(await stateOf(warehouse, idOf(1))).toBe('pending')
  })

  it('of a notice that is not stored is left out', async () => {
    const warehouse = await openApplied(analysisLine(entry))
    expect(
      await warehouse.db.rows('SELECT edital_id FROM analyses UNION ALL SELECT edital_id FROM items'),
    ).toEqual([])
  })
})

describe('drift', () => {
  const seen = (sample: string, count: number) => [
    { path: 'notice.cor', kind: 'unknown_field', sample, count },
  ]

  it('is counted by path and kind, with its first sample and its first and last time', async () => {
    const warehouse = await openApplied(noticeLine(entry, { drift: seen('blue', 2), at: minutesLater(2) }))
    await warehouse.apply(
      noticeLine(noticeEntry(2), { drift: seen('red', 1), at: minutesLater(5) }),
      noticeLine(noticeEntry(3), {
        drift: [{ ...seen('', 1)[0], path: 'notice.peso' }],
        at: minutesLater(4),
      }),
    )
    await warehouse.apply(noticeLine(noticeEntry(4), { at: minutesLater(9) }))
    const at = (minutes: number) => new Date(minutesLater(minutes))
    expect(await warehouse.db.rows('SELECT * FROM schema_drift ORDER BY path')).toMatchObject([
      { path: 'notice.cor', sample: 'blue', count: 3, first_seen_at: at(2), last_seen_at: at(5) },
      { path: 'notice.peso', count: 1, first_seen_at: at(4), last_seen_at: at(4) },
    ])
  })
})

describe('a run', () => {
  const finished = (report: object, run = 'r1'): TestLine => ({
    type: 'run_finished',
    run_id: run,
    report: { run_id: run, mode: 'full', status: 'ok', failed: 0, not_attempted: 0, ...report },
  })

  it('is interrupted until its end is logged', async () => {
    const warehouse = await openApplied()
    const sql = 'SELECT run_id, status, started_at, finished_at IS NULL AS open, listed FROM sync_runs'
    expect(await warehouse.db.rows(sql)).toEqual([
      { run_id: 'r1', status: 'interrupted', started_at: new Date(STARTED), open: true, listed: null },
    ])
    await warehouse.apply(finished({ listed: 3, started_at: STARTED, finished_at: LATER }))
    expect(await warehouse.db.rows(sql)).toEqual([
      { run_id: 'r1', status: 'ok', started_at: new Date(STARTED), open: false, listed: 3 },
    ])
    // A run that finds nothing is no new data.
    expect(await metaOf(warehouse)).toMatchObject({ applied_segment: 2, data_version: 0 })
  })

  it('that covers and attempts everything ends a --full, and no other does', async () => {
    const warehouse = await openWarehouseCase({ refetch_before: STARTED })
    await warehouse.apply()
    expect(await metaOf(warehouse)).toMatchObject({ refetch_segment: 1, refetch_open: true })
    const others = [{ failed: 1 }, { not_attempted: 1 }, { mode: 'filtered' }, { status: 'failed' }]
    for (const report of others) {
      await warehouse.apply(finished(report))
      expect(await metaOf(warehouse), JSON.stringify(report)).toMatchObject({ refetch_open: true })
    }
    await warehouse.apply({ type: 'run_started', run_id: 'r2', mode: 'incremental', analysis_statuses: [] })
    expect(await metaOf(warehouse)).toMatchObject({ refetch_segment: 1, refetch_open: true })
    await warehouse.apply(finished({ mode: 'incremental', status: 'partial' }, 'r2'))
    expect(await metaOf(warehouse)).toMatchObject({ refetch_segment: 1, refetch_open: false })
  })

  it('whose start is lost keeps its kind, as does the salvage', async () => {
    const warehouse = await openWarehouseCase()
    const lost = (run: string, fields = {}) => ({
      type: 'lost',
      run_id: run,
      reason: `${run} is lost`,
      ...fields,
    })
    await warehouse.apply(lost('r8'), lost('r9', { mode: 'salvage' }))
    expect(
      await warehouse.db.rows(
        `SELECT run_id, status, finished_at IS NULL AS open, error FROM sync_runs WHERE run_id <> 'r1' ORDER BY ALL`,
      ),
    ).toEqual([
      { run_id: 'r8', status: 'interrupted', open: true, error: 'r8 is lost' },
      { run_id: 'r9', status: 'partial', open: false, error: 'r9 is lost' },
    ])
  })

  it('names the log if it is the first', async () => {
    const warehouse = await openApplied()
    await warehouse.apply({
      type: 'run_started',
      run_id: 'r2',
      mode: 'full',
      analysis_statuses: [],
      log: 'r1',
    })
    expect(await metaOf(warehouse)).toMatchObject({ log: 'r1' })
  })
})

describe('a segment', () => {
  it('is applied with its number and its line count', async () => {
    const warehouse = await openLoaded()
    await warehouse.apply(goneLine(entry))
    expect(await warehouse.db.rows('SELECT * FROM applied_segments ORDER BY ALL')).toEqual([
      { segment: 1, lines: 3 },
      { segment: 2, lines: 1 },
    ])
    expect(await metaOf(warehouse)).toMatchObject({ applied_segment: 2, data_version: 2 })
  })

  it.each([
    ['written for another place', { number: 5 }, 'it was written as number 5, not 2'],
    ['of a run that did not begin in this log', { run_id: 'r9' }, 'it continues run r9, which did not start'],
    ['of another log', { log: 'r0' }, 'another log, which began with run r0'],
  ])('%s is refused, and nothing of it is applied', async (_, fields, reason) => {
    const warehouse = await openLoaded()
    const applied = warehouse.apply(goneLine(entry, fields))
    await expect(applied).rejects.toThrow(FatalError)
    await expect(applied).rejects.toThrow(reason)
    expect(await metaOf(warehouse)).toMatchObject({ applied_segment: 1 })
    expect(await warehouse.db.row('SELECT deleted_at FROM editais')).toEqual({ deleted_at: null })
  })

  it.each([
    ['a line is missing', goneLine(entry, { seq: 3 })],
    ['a line is there twice', goneLine(entry, { seq: 1 })],
    ['a notice has no id', noticeLine(entry, { edital_id: null })],
  ])('in which %s is refused completely', async (_, line) => {
    const warehouse = await openLoaded()
    await expect(warehouse.apply(noticeLine(noticeEntry(3)), line)).rejects.toThrow('is damaged')
    expect(await metaOf(warehouse)).toMatchObject({ applied_segment: 1 })
    expect(await warehouse.db.row('SELECT count(*) AS count FROM editais')).toEqual({ count: 1 })
  })
})
