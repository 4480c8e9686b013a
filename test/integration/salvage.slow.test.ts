import { cp, mkdir, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openOptions } from '#src/core/pipeline/run.ts'
import { readLines, segmentPath } from '#src/core/rawlog/files.ts'
import { rebuildWarehouse } from '#src/core/warehouse/warehouse.ts'
import type { Finding } from '#src/extras/extra.ts'
import { observeSteps, SALVAGE_STEPS } from '#src/lib/durable.ts'
import { checkRawLog } from '#src/operate/doctor/raw_log.ts'
import { salvage } from '#src/operate/replay.ts'
import {
  diagnoseHere,
  type Prepared,
  prepareDirectory,
  problemsOf,
  publishHere,
} from '#test/support/doctor.ts'
import { splitRuns } from '#test/support/folded_log.ts'
import { contextHere } from '#test/support/here.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, filesBelow } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'
import { queryWarehouse } from '#test/support/tables.ts'
import { expectTruth } from '#test/support/truth.ts'

const compress = promisify(zlib.zstdCompress)
const CHECKED = { params: { [zlib.constants.ZSTD_c_checksumFlag]: 1 } }

async function linesOfSegment(path: string): Promise<string[]> {
  return await Array.fromAsync(readLines(path))
}

/** Writes a segment of these lines, in this many frames. */
async function writeSegment(path: string, lines: readonly string[], frames = 1): Promise<Buffer[]> {
  const size = Math.ceil(lines.length / frames)
  const parts = Array.from({ length: frames }, (_, n) => lines.slice(n * size, (n + 1) * size))
  const compressed = await Promise.all(
    parts.map(part => compress(Buffer.from(part.map(line => `${line}\n`).join('')), CHECKED)),
  )
  await writeFile(path, Buffer.concat(compressed))
  return compressed
}

type Spoil = (path: string, bytes: Buffer) => Promise<unknown>

const flip = (bytes: Buffer, at: number) => bytes.with(at, (bytes[at] as number) ^ 0x10)

/** Kinds of damage to a segment file. */
const DAMAGES: Readonly<Record<string, { spoil: Spoil; expected: RegExp }>> = {
  'with a changed byte': {
    spoil: (path, bytes) => writeFile(path, flip(bytes, bytes.length >> 1)),
    expected: /is damaged: bytes 0 to \d+ are corrupted/,
  },
  'with a changed first byte': {
    spoil: (path, bytes) => writeFile(path, flip(bytes, 0)),
    expected: /is damaged: bytes from 0 on are corrupted/,
  },
  'cut off': {
    spoil: (path, bytes) => writeFile(path, bytes.subarray(0, bytes.length >> 1)),
    expected: /is damaged: it is truncated: the frame at byte 0 has no end/,
  },
  // DuckDB reads all of its lines without an error.
  'without its checksum': {
    spoil: (path, bytes) => writeFile(path, bytes.subarray(0, -2)),
    expected: /is damaged: it is truncated: the frame at byte 0 has no end/,
  },
  empty: { spoil: path => writeFile(path, ''), expected: /is damaged: it is empty/ },
  'with more bytes at the end': {
    spoil: (path, bytes) => writeFile(path, Buffer.concat([bytes, Buffer.from('more')])),
    expected: /is damaged: bytes from \d+ on are corrupted/,
  },
  'without a line': {
    spoil: async path => writeSegment(path, (await linesOfSegment(path)).toSpliced(1, 1)),
    expected: /is damaged: line 3 follows line 1/,
  },
  'with a line that is not JSON': {
    spoil: async path => writeSegment(path, (await linesOfSegment(path)).with(1, '{"seq":2,')),
    expected: /is damaged: the line after line 1 is not JSON/,
  },
  'with a line without its edital_id': {
    spoil: async path => {
      const lines = await linesOfSegment(path)
      await writeSegment(path, lines.with(1, (lines[1] as string).replace('"edital_id"', '"edital"')))
    },
    expected: /is damaged: the line after line 1 has no edital_id/,
  },
  gone: { spoil: path => rm(path), expected: /is missing/ },
}

describe('a segment of the raw log', () => {
  let prepared: Prepared
  beforeAll(async () => {
    prepared = await prepareDirectory()
    return prepared.remove
  })
  beforeEach(() => prepared.restoreLog())
  const segment = (number: number) => segmentPath(join(prepared.directory, 'raw'), number)

  /** A rebuild and a run that would apply it both refuse it, and apply nothing of it. */
  async function expectRefused(number: number, expected: RegExp): Promise<void> {
    const before = await readFile(join(prepared.directory, 'warehouse.duckdb'))
    const refused = await rebuiltNotices().then(() => 'not refused', String)
    expect(refused).toMatch(expected)
    expect(refused).toContain(`Segment ${segment(number)} of the raw log`)
    expect(refused).toContain('from a backup, or run `editais rebuild --salvage`')
    expect((await readFile(join(prepared.directory, 'warehouse.duckdb'))).equals(before)).toBe(true)
  }

  async function findings(): Promise<Finding[]> {
    const { paths } = contextHere(prepared.environment)
    return (await checkRawLog(paths, () => {})).findings.filter(({ status }) => status !== 'ok')
  }

  /** The number of notices in the warehouse that is built from the log. */
  async function rebuiltNotices(): Promise<number> {
    const { db } = await rebuildWarehouse(openOptions(contextHere(prepared.environment)))
    const { n } = await db.row<{ n: number }>('SELECT count(*)::INTEGER AS n FROM editais')
    db.close()
    return n
  }

  /** Writes the segments of another company's runs, and returns the path of each. */
  async function writeTheirs(numbers: readonly number[]): Promise<(number: number) => string> {
    const theirs = join(prepared.directory, 'theirs')
    await mkdir(theirs, { recursive: true })
    const their = (number: number) => segmentPath(theirs, number)
    for (const number of numbers) {
      const lines = (await linesOfSegment(segment(number))).map(line =>
        line
          .replace('"company":"acme"', '"company":"boreal"')
          .replaceAll(/"(run_id|log)":"/g, '"$1":"of-boreal-'),
      )
      await writeSegment(their(number), lines)
    }
    return their
  }

  it.each(Object.entries(DAMAGES))('%s is refused, found by the doctor, and salvaged', async (_, damage) => {
    // The notices; the analyses are in a later segment.
    const path = segment(1)
    const bytes = await readFile(path)
    await damage.spoil(path, bytes)
    const spoilt = await readFile(path).catch(() => undefined)
    await expectRefused(1, damage.expected)

    const found = await findings()
    expect(found).toMatchObject([{ status: 'problem', subject: path }])
    expect(found[0]?.what).toMatch(damage.expected)
    await salvage(contextHere(prepared.environment))
    expect(await findings()).toEqual([])
    const [kept] = await readdir(join(prepared.directory, 'raw/damaged')).catch(() => [])
    expect(kept && (await readFile(join(prepared.directory, 'raw/damaged', kept)))).toEqual(spoilt)
  })

  it('that is not applied yet is refused as well, and applied once it is restored', async () => {
    const { environment } = prepared
    const whole = await readFile(segment(4))
    for (const number of [4, 5, 6]) await rm(segment(number))
    expect(await rebuiltNotices()).toBe(9)
    const before = await queryWarehouse(environment, 'FROM meta')
    await writeFile(segment(4), flip(whole, whole.length >> 1))
    await expect(publishHere(environment)).rejects.toThrow(/000004.ndjson.zst of the raw log is damaged/)
    expect(await queryWarehouse(environment, 'FROM meta')).toEqual(before)
    await writeFile(segment(4), whole)
    await publishHere(environment)
    expect(await queryWarehouse(environment, 'SELECT applied_segment FROM meta')).toEqual([
      { applied_segment: 4 },
    ])
  })

  it('of another company or in another place is refused, named and moved aside', async () => {
    const { directory, environment } = prepared
    const their = await writeTheirs([1, 2, 4])
    const foreign: Readonly<Record<string, { from: string; to: number; expected: RegExp; named?: number }>> =
      {
        'their first one after ours': {
          from: their(1),
          to: 7,
          expected: /is misplaced: it was written as number 1, not 7/,
        },
        'a later one of theirs': {
          from: their(4),
          to: 4,
          expected: /belongs to another log of boreal, which began with run of-boreal-/,
        },
        'one of theirs without the start of a run': {
          from: their(2),
          to: 2,
          expected: /belongs to another log: it continues run of-boreal-\S+, which did not start in this one/,
        },
        'ours at another place': {
          from: segment(2),
          to: 7,
          expected: /is misplaced: it was written as number 2, not 7/,
        },
        // Only the other segments show that the first one is foreign.
        'their first one in place of ours': {
          from: their(1),
          to: 1,
          named: 2,
          expected: /belongs to another log: it continues run /,
        },
      }
    for (const [name, { from, to, expected, named = to }] of Object.entries(foreign)) {
      await prepared.restoreLog()
      await cp(from, segment(to))
      await expectRefused(named, expected)
      expect(await findings(), name).toMatchObject([{ status: 'problem', subject: segment(to) }])
      await salvage(contextHere(environment))
      expect(await findings(), name).toEqual([])
      const aside = join(directory, 'raw/damaged', `${String(to).padStart(6, '0')}.ndjson.zst`)
      expect(await readFile(aside)).toEqual(await readFile(from))
    }
    // Of ours, one notice was logged again later; nothing of theirs is left.
    expect(await rebuiltNotices()).toBe(1)
  })

  it.each<{
    state: string
    spoil: (their: (number: number) => string) => Promise<unknown>
    foreign: number[]
  }>([
    {
      state: 'with its neighbour',
      spoil: their => Promise.all([2, 3].map(number => cp(their(number), segment(number)))),
      foreign: [2, 3],
    },
    {
      state: 'after a damaged one and intact ones',
      spoil: async their => {
        await writeFile(segment(2), '')
        await cp(their(5), segment(5))
      },
      foreign: [5],
    },
  ])('of another company $state is found, and nothing of it stays', async ({ spoil, foreign }) => {
    await spoil(await writeTheirs([1, 2, 3, 4, 5]))
    await expect(rebuiltNotices()).rejects.toThrow(/rebuild --salvage/)
    const found = (await findings()).filter(({ what }) => what.startsWith('belongs to another log'))
    expect(found.map(({ subject }) => subject)).toEqual(foreign.map(segment))

    await salvage(contextHere(prepared.environment))
    expect(await findings()).toEqual([])
    for (const number of [1, 2, 3, 4, 5, 6]) {
      const runs = (await linesOfSegment(segment(number))).map(line => JSON.parse(line).run_id)
      expect(runs.filter(run => run.startsWith('of-boreal-'))).toEqual([])
    }
    expect(await rebuiltNotices()).toBeGreaterThan(0)
  })

  it('with a number far from the others is reported as a stray file, also by a salvage', async () => {
    const stray = segment(999_999_999)
    await cp(segment(6), stray)
    expect(await findings()).toMatchObject([
      {
        status: 'problem',
        subject: stray,
        what: expect.stringContaining('999,999,992 segments are missing'),
      },
    ])
    await expect(salvage(contextHere(prepared.environment))).rejects.toThrow(
      `${stray} cannot belong to this log: 999,999,992 segments are missing before it. Move it away and run again.`,
    )
    await rm(stray)
    expect(await findings()).toEqual([])
  })

  it('is changed only after the warehouse built from it is removed', async () => {
    const { environment, directory } = prepared
    for (const number of [2, 5]) await rm(segment(number))
    observeSteps((at, when) => {
      if (at === 'segment.rename' && when === 'after') throw new Error('died')
    })
    await expect(salvage(contextHere(environment))).rejects.toThrow('died')
    observeSteps(null)
    expect(await readdir(directory)).not.toContain('warehouse.duckdb')
  })

  it('that was salvaged is named in --json even if the rebuild then fails', async () => {
    await rm(segment(2))
    const lines = await linesOfSegment(segment(3))
    await writeSegment(
      segment(3),
      lines.map(line => line.replace(/"at":"[^"]*"/, '"at":"then"')),
    )
    const { code, stdout } = await runShared(['rebuild', '--salvage', '--json'], prepared.environment)
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ salvaged: [{ segment: 2, why: 'is missing' }] })
  })

  it('is salvaged on a second try if the first one died, and the damaged file is kept', async () => {
    const { directory } = prepared
    const steps = ['segment.sync', 'segment.rename', 'segment.directory', 'rebuilt.remove'] as const
    for (const step of [...SALVAGE_STEPS, ...steps]) {
      for (const moment of ['before', 'after'] as const) {
        await prepared.restoreLog()
        await writeFile(segment(2), (await readFile(segment(2))).subarray(0, 100))
        observeSteps((at, when) => {
          if (at === step && when === moment) throw new Error('died')
        })
        await expect(salvage(contextHere(prepared.environment))).rejects.toThrow('died')
        observeSteps(null)
        await salvage(contextHere(prepared.environment))
        expect(await findings()).toEqual([])
        const kept = await filesBelow(join(directory, 'raw/damaged'))
        expect([...kept.values()].map(({ length }) => length)).toContain(100)
      }
    }
  })
})

describe('rebuild --salvage', () => {
  it('prints what is lost and what stays; the next run fetches the rest, and all is as in the API', async () => {
    const company = await startCompany(notices(1, 24))
    const { environment, world, faults } = company
    const raw = join(companyDirectory(environment), 'raw')
    const segment = (number: number) => segmentPath(raw, number)
    await company.syncHere()
    world.remove(idOf(3))
    world.remove(idOf(4))
    for (const n of [5, 6]) {
      world.update(idOf(n), { edital: { objeto: 'Mudou' }, updatedAt: new Date('2026-11-20T12:00:00Z') })
    }
    faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids: [idOf(6)] }]
    await company.syncHere()
    faults.plan = []
    world.restore(idOf(4))
    await splitRuns(raw)
    // Half of the first run's analyses stay; the second run lost its start, with its whole list.
    const analyses = await linesOfSegment(segment(2))
    const [first, last] = (await writeSegment(segment(2), analyses, 2)) as [Buffer, Buffer]
    await writeFile(segment(2), Buffer.concat([flip(first, first.length >> 1), last]))
    const kept = analyses.slice(12).map(line => JSON.parse(line).edital_id)
    await rm(segment(4))

    const refused = await runShared(['rebuild'], environment)
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toMatch(new RegExp(`^Segment ${segment(4)} of the raw log is missing\\. Restore`))

    const { code, stdout } = await runShared(['rebuild', '--salvage'], environment)
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /000002\.ndjson\.zst is damaged: bytes 0 to \d+ are corrupted\.\n {2}kept +12 analysis/,
    )
    expect(stdout).toContain(`  moved to  ${join(raw, 'damaged/000002.ndjson.zst')}`)
    expect(stdout).toContain(`Segment ${segment(4)} is missing.\n  kept      nothing\n`)
    expect(stdout).toContain('`editais sync` fetches the lost notices')

    const runs = await queryWarehouse<{ mode: string; status: string; error: string | null }>(
      environment,
      'SELECT mode, status, error FROM sync_runs ORDER BY started_at, mode',
    )
    expect(runs.filter(({ mode }) => mode === 'salvage')).toHaveLength(2)
    expect(runs.filter(({ mode }) => mode !== 'salvage').map(({ status }) => status)).toEqual([
      ...['ok', 'partial'],
    ])
    const stored = new Set([...kept, idOf(5)]).size
    expect(await company.query(`SELECT count(*) AS n FROM analyses`)).toEqual([{ n: stored }])

    // The second run lost a change and two deletions. One notice is quarantined as before.
    const due = world.ids().filter(id => id === idOf(5) || (!kept.includes(id) && id !== idOf(6)))
    const report = await company.syncHere()
    expect(report).toMatchObject({ status: 'ok', listed: 23, tombstoned: 1, loaded: due.length, deferred: 1 })
    await expectTruth(company)
    expect(
      await company.query(`SELECT edital_id FROM editais WHERE deleted_at IS NOT NULL ORDER BY ALL`),
    ).toEqual([{ edital_id: idOf(3) }])
    expect(problemsOf(await diagnoseHere(environment))).toEqual([])

    const before = await realpath(join(companyDirectory(environment), 'lake/latest'))
    expect(await salvage(contextHere(environment))).toEqual([])
    expect(await realpath(join(companyDirectory(environment), 'lake/latest'))).toBe(before)
  })
})
