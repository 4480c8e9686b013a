import { describe, expect, it } from 'vitest'
import { segmentPath } from '#src/core/rawlog/files.ts'
import { applySegment, applySegments } from '#src/core/warehouse/apply.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { noticeEntry } from '#test/support/notices.ts'
import {
  analysisLine,
  goneLine,
  minutesLater,
  noticeLine,
  openApplied,
  openWarehouseCase,
  rejectedLine,
  sameLine,
  type TestLine,
  TIMEZONE,
  type WarehouseCase,
} from '#test/support/warehouse.ts'

const NOTICES = 5
const SEGMENTS = 15
/** More at night: `SEEDS` says how many. */
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

  // The seed of every day does not have it.
  it('take waiting rows to the month to which their notice moves', async () => {
    const warehouse = await openApplied(noticeLine(noticeEntry(1)), analysisLine(noticeEntry(1)))
    const moved = { created_at: '2026-08-15T12:00:00Z', updated_at: minutesLater(1) }
    await warehouse.apply(noticeLine(noticeEntry(1, moved)))
    const { db, applied } = await applyAtOnce(warehouse, 2)
    expect(applied).toBe(true)
    expect(await db.rows('SELECT DISTINCT month FROM row_places')).toEqual([{ month: '2026-08' }])
    expect(await everything(db)).toEqual(await everything(warehouse.db))
  })

  it('are applied one by one if a run fetches the analyses of other phases', async () => {
    const warehouse = await openApplied(noticeLine(noticeEntry(1)))
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
