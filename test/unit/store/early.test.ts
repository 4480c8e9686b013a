import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { TABLES } from '#schema/tables.ts'
import { readAccess } from '#src/core/lake/access.ts'
import { type EarlyFile, writeEarly } from '#src/core/lake/export.ts'
import { snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { type Published, publish } from '#src/core/lake/publish.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { noticeEntry } from '#test/support/notices.ts'
import {
  analysisLine,
  goneLine,
  noticeLine,
  openWarehouseCase,
  rejectedLine,
  sameLine,
  type TestLine,
  TIMEZONE,
  type WarehouseCase,
} from '#test/support/warehouse.ts'

const MONTHS = ['2026-09', '2026-10', '2026-11'] as const
const NOTICES = 8

/** Draws what a segment says of some notices, each at most once. */
function drawLines(random: Random, entries: Map<number, Entry>): TestLine[] {
  const numbers = random.sample(
    Array.from({ length: NOTICES }, (_, index) => index + 1),
    random.int(1, 4),
  )
  return numbers.flatMap(number => {
    const before = entries.get(number)
    const elements = (count: number) => Array.from({ length: count }, () => ({ title: random.hex(4) }))
    const entry = noticeEntry(
      number,
      { objeto: random.hex(4), created_at: `${random.pick(MONTHS)}-15T12:00:00Z` },
      { requirements: elements(random.int(0, 2)), items: [], alerts: elements(random.int(0, 2)) },
    )
    const stays = before && { edital: before.edital, analysis: entry.analysis }
    const [kept, lines] = random.pick<readonly [Entry, readonly TestLine[]]>([
      [entry, [noticeLine(entry), analysisLine(entry)]],
      [entry, [noticeLine(entry)]],
      ...(before && stays
        ? ([
            [stays, [analysisLine(stays)]],
            [before, [sameLine(before)]],
            [before, [rejectedLine(before)]],
            [before, [goneLine(before)]],
          ] as const)
        : []),
    ])
    entries.set(number, kept)
    return lines
  })
}

async function publishTo(
  { db, rows, directory }: WarehouseCase,
  lake: string,
  early: readonly EarlyFile[],
): Promise<Published> {
  await mkdir(snapshotsDirectory(join(directory, lake)), { recursive: true })
  await rows.settle()
  await rows.removeOld()
  return await publish({
    ...{ db, rows, early, lake: join(directory, lake), company: 'acme', keepMs: 0, inUse: [] },
    ...{ marts: { macros: [], views: [] }, martsWanted: 'none', sourceTimezone: TIMEZONE },
    now: new Date('2026-11-20T12:00:00Z'),
  })
}

/** The rows of each file. */
async function contents({ db }: WarehouseCase, { directory, manifest }: Published) {
  const files = TABLES.flatMap(({ name }) => manifest.tables[name]?.files ?? [])
  const found: Record<string, unknown> = {}
  for (const { path } of files)
    found[path] = await db.rows(
      `FROM read_parquet(${literal(join(directory, path))}, hive_partitioning = false) ORDER BY ALL`,
    )
  return found
}

async function inodesOf(directory: string, paths: readonly string[]): Promise<Set<number>> {
  return new Set(await Promise.all(paths.map(async path => (await stat(join(directory, path))).ino)))
}

const made = { early: 0, linked: 0 }

it.each([1, 2, 3, 4])(
  'what is written early is published only while it is true, whatever happens in between (seed %i)',
  async seed => {
    const random = createRandom(`early ${seed}`)
    const [hasty, patient] = [await openWarehouseCase(), await openWarehouseCase()]
    const entries = new Map<number, Entry>()
    const early: EarlyFile[] = []
    for (let segment = 1; segment <= 8; segment += 1) {
      const lines = drawLines(random, entries)
      for (const { apply } of [hasty, patient]) await apply(...lines)
      if (random.chance(0.4)) continue
      const months = await hasty.rows.writeComplete(0, random.int(0, 2))
      const to = { directory: join(hasty.directory, 'early'), company: 'acme' }
      const access = await readAccess(hasty.directory)
      early.push(...(await writeEarly(hasty.db, random.chance(0.3) ? MONTHS : months, { ...to, access })))
    }
    const published = await publishTo(hasty, 'lake', early)
    expect(await contents(hasty, published)).toEqual(
      await contents(patient, await publishTo(patient, 'lake', [])),
    )
    const paths = Object.values(published.manifest.tables).flatMap(({ files }) =>
      files.map(({ path }) => path),
    )
    const linked = await inodesOf(published.directory, paths)
    made.early += early.length
    for (const { directory, file } of early)
      for (const inode of await inodesOf(directory, [file.path])) if (linked.has(inode)) made.linked += 1
  },
)

afterAll(() => {
  // Some were taken over, and some were no longer true.
  expect(made.linked).toBeGreaterThan(5)
  expect(made.early - made.linked).toBeGreaterThan(5)
})
