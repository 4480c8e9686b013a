import { describe, expect, it } from 'vitest'
import { segmentPath } from '#src/core/rawlog/files.ts'
import { applySegment, applySegments } from '#src/core/warehouse/apply.ts'
import type { Database, Row } from '#src/core/warehouse/database.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { IS_NIGHT } from '#test/support/night.ts'
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
  TIMEZONE,
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

const NOTICES = 5
/** More at night. */
const SEGMENTS = IS_NIGHT ? 15 : 7
const SEEDS = Array.from({ length: Number(process.env.SEEDS ?? 1) }, (_, index) => index + 1)

/** All tables with their rows, sorted, without those of the test itself. */
async function everything(db: Database): Promise<Record<string, readonly string[]>> {
  const tables = await db.rows<{ name: string }>(
    `SELECT table_name AS name FROM duckdb_tables()
     WHERE database_name IN (current_database(), 'temp') AND table_name NOT IN ('touched', 'noticed', 'analysed', 'replaced', 'rejected', 'drifted', 'restated', 'strayed')`,
  )
  const all = tables.map(async ({ name }) => {
    const rows = await db.rows<{ row: string }>(
      `SELECT to_json(t)::VARCHAR AS row FROM "${name}" t ORDER BY ALL`,
    )
    return [name, rows.map(({ row }) => row)] as const
  })
  return Object.fromEntries(await Promise.all(all))
}

/** A second warehouse with the same segments, the first one alone and the others at once. */
async function applyAtOnce({ directory }: WarehouseCase, upTo: number) {
  const { db, directory: temporaryDirectory } = await openWarehouseCase()
  const projection = { sourceTimezone: TIMEZONE, temporaryDirectory }
  const [first, ...others] = Array.from({ length: upTo }, (_, index) => ({
    number: index + 1,
    path: segmentPath(directory, index + 1),
  })) as [{ number: number; path: string }, ...{ number: number; path: string }[]]
  await applySegment(db, first, projection)
  return { db, applied: await applySegments(db, others, projection) }
}

/** A notice in one of several versions, listed in one of two months. */
function versionOf(random: Random, number: number): Entry {
  const version = random.int(1, 3)
  const created_at = random.chance(0.2) ? '2026-08-15T12:00:00Z' : '2026-11-10T12:00:00Z'
  return noticeEntry(
    number,
    { objeto: `Objeto ${version}`, updated_at: minutesLater(version), created_at },
    { alerts: Array.from({ length: version }, (_, index) => ({ title: `Alerta ${index}` })) },
  )
}

function lineOf(random: Random, entry: Entry, segment: number): TestLine {
  const fields = { at: minutesLater(segment) }
  const drift = [{ path: 'notice.novo', kind: 'unknown_field', sample: String(random.int(1, 9)), count: 1 }]
  return random.weighted<() => TestLine>([
    [() => noticeLine(entry, random.chance(0.3) ? { ...fields, drift } : fields), 4],
    [() => analysisLine(entry, fields), 4],
    [() => sameLine(entry, fields), 2],
    [() => goneLine(entry, fields), 1],
    [() => rejectedLine(entry, fields), 1],
    [() => rejectedLine(entry, { ...fields, kind: 'notice' }), 1],
    [
      () => rejectedLine(entry, { ...fields, kind: 'notice', edital_id: null, hash: `h${random.int(1, 2)}` }),
      1,
    ],
    [() => ({ type: 'gone', edital_id: null, hash: `h${random.int(1, 2)}`, ...fields }), 1],
  ])()
}

/** Each notice has at most one line in a segment, or a list entry and its analysis. */
function segmentOf(random: Random, segment: number): TestLine[] {
  const numbers = random.sample(
    Array.from({ length: NOTICES }, (_, index) => index + 1),
    random.int(0, 3),
  )
  const lines = numbers.flatMap(number => {
    const entry = versionOf(random, number)
    if (random.chance(0.2)) return [noticeLine(entry), analysisLine(entry)]
    return [lineOf(random, entry, segment)]
  })
  const unnamed = new Set<unknown>()
  const once = lines.filter(({ edital_id, hash }) => {
    if (edital_id !== null || !unnamed.has(hash)) {
      if (edital_id === null) unnamed.add(hash)
      return true
    }
    return false
  })
  const run = `r${segment}`
  const start: TestLine = {
    ...{ type: 'run_started', run_id: run, mode: 'full', analysis_statuses: [], at: minutesLater(segment) },
    ...(random.chance(0.2) ? { refetch_before: minutesLater(segment) } : {}),
  }
  const report = { run_id: run, mode: 'full', status: 'ok', failed: random.int(0, 1), not_attempted: 0 }
  const end: TestLine = { type: 'run_finished', run_id: run, report }
  return [start, ...once.map(line => ({ ...line, run_id: run })), ...(random.chance(0.8) ? [end] : [])]
}

describe('segments that are applied at once', () => {
  it.each(SEEDS)('give the same tables as one by one (seed %i)', async seed => {
    const random = createRandom(`apply many ${seed}`)
    const warehouse = await openWarehouseCase()
    // Rows of these analyses wait when the others come.
    const first = Array.from({ length: NOTICES }, (_, index) => versionOf(random, index + 1))
    await warehouse.apply(...first.flatMap(entry => [noticeLine(entry), analysisLine(entry)]))
    for (let segment = 2; segment <= SEGMENTS; segment += 1)
      await warehouse.apply(...segmentOf(random, segment))
    const { db, applied } = await applyAtOnce(warehouse, SEGMENTS)
    expect(applied).toBe(true)
    expect(await everything(db)).toEqual(await everything(warehouse.db))
  })

  it('are applied one by one if a run fetches the analyses of other phases', async () => {
    const warehouse = await openApplied(noticeLine(entry))
    await warehouse.apply({ type: 'run_started', run_id: 'r2', mode: 'full', analysis_statuses: ['won'] })
    await warehouse.apply({ type: 'run_started', run_id: 'r3', mode: 'full', analysis_statuses: [] })
    const { db, applied } = await applyAtOnce(warehouse, 3)
    expect(applied).toBe(false)
    expect(await db.row('SELECT applied_segment FROM meta')).toEqual({ applied_segment: 1 })
  })

  it('are applied one by one if a value in them cannot be loaded, or a line is missing', async () => {
    for (const wrong of [
      analysisLine(noticeEntry(1), { fetched_in: 'soon' }),
      goneLine(noticeEntry(1), { seq: 7 }),
    ]) {
      const warehouse = await openApplied(noticeLine(noticeEntry(1)))
      await warehouse.apply(goneLine(noticeEntry(1)))
      await warehouse.apply(wrong).catch(() => {})
      const { db, applied } = await applyAtOnce(warehouse, 3)
      expect(applied).toBe(false)
      expect(await db.row('SELECT count(*) AS n FROM editais WHERE deleted_at IS NOT NULL')).toEqual({ n: 0 })
    }
  })
})
