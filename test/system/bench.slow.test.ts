import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { newReport } from '#src/store/run_report.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { literal } from '#src/store/warehouse/quoted.ts'
import { surroundings } from '#test/support/project.ts'
import { judge } from '../../bench/bars.ts'
import { judgeBi } from '../../bench/bi/bars.ts'
import { FIGURES as BI_FIGURES } from '../../bench/bi/figures.ts'
import { monthsOf } from '../../bench/bi/written.ts'
import { commandOf } from '../../bench/command.ts'
import { createCompany } from '../../bench/company.ts'
import { judgeDaemon } from '../../bench/daemon/bars.ts'
import { overlaps } from '../../bench/daemon/crowd.ts'
import { percentile } from '../../bench/daemon/watch.ts'
import { FIGURES, median } from '../../bench/figures.ts'
import { measureFirst } from '../../bench/measure.ts'
import { judgeMonth } from '../../bench/month/bars.ts'
import { benchMonth } from '../../bench/month/bench.ts'
import { figuresOf } from '../../bench/month/figures.ts'
import { complaints, isConserved, networkFaultsAt } from '../../bench/month/network_faults.ts'
import { runsAmiss, wrongNotices } from '../../bench/month/truth.ts'
import { killAll, startServer } from '../../bench/processes.ts'
import { type Bench, describeBench } from '../../bench/result.ts'
import { expectSameRows } from '../../bench/same_rows.ts'
import { type CpuByThread, STAGES } from '../../bench/threads.ts'

const NOTICES = 30
const root = fileURLToPath(new URL('../..', import.meta.url))

type Printed = {
  companies: {
    notices: number
    averageBytes: number
    averageChildren: number
    compression: number
    figures: Record<string, number>
    spread: Record<string, { least: number; most: number }>
    threads: CpuByThread | null
    runs: { full: Report; unchanged: Report; changed: Report; figures: Record<string, number> }[]
  }[]
  bars: { what: string; met: boolean }[]
}
type Report = Record<'listed' | 'loaded' | 'unchanged' | 'changed' | 'requests' | 'bytes_fetched', number>

let temporary: string
let printed: Printed

/** The compile cache is outside the directory that must be empty afterwards. */
const environment = () => ({ ...process.env, ...surroundings(), TMPDIR: temporary })

beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), 'bench-test-'))
  // The command line of `npm run bench`.
  const { nodeOptions, file, args } = await commandOf('bench')
  const sizes = ['--notices', String(NOTICES), '--json']
  const { stdout } = await promisify(execFile)(process.execPath, [...nodeOptions, file, ...args, ...sizes], {
    cwd: root,
    env: environment(),
  })
  printed = JSON.parse(stdout)
}, 120_000)

afterAll(() => rm(temporary, { recursive: true, force: true }))

const company = () => printed.companies[0] as Printed['companies'][number]
const run = () => company().runs[0] as Printed['companies'][number]['runs'][number]

describe('the bench', () => {
  it('prints every figure as a number', () => {
    const { figures } = company()
    expect(Object.keys(figures)).toEqual(FIGURES.map(({ key }) => key))
    for (const [key, value] of Object.entries(figures)) expect(value, key).toBeGreaterThanOrEqual(0)
  })

  it('serves documents of realistic size and content', () => {
    const { notices, averageBytes, averageChildren, compression } = company()
    expect(notices).toBe(NOTICES)
    expect(averageBytes).toBeGreaterThan(30_000)
    expect(averageBytes).toBeLessThan(45_000)
    expect(averageChildren).toBeGreaterThan(40)
    expect(averageChildren).toBeLessThan(60)
    expect(compression).toBeGreaterThan(4)
    expect(compression).toBeLessThan(8)
  })

  it('measures a full sync that loads every notice', () => {
    expect(run().full).toMatchObject({ listed: NOTICES, loaded: NOTICES, requests: NOTICES + 1 })
    expect(run().full.bytes_fetched).toBeGreaterThanOrEqual(NOTICES * company().averageBytes - NOTICES)
    const { figures } = company()
    expect(figures.notices_per_second).toBeCloseTo(NOTICES / (figures.full_wall_seconds as number), -1)
  })

  it('measures wall time, CPU time and memory of every command, and that of the script beside', () => {
    const { figures } = company()
    const commands = ['full', 'unchanged', 'changed', 'first'].flatMap(key => [key, `script_${key}`])
    for (const command of [...commands, 'requests', 'load', 'status']) {
      for (const kind of ['wall_seconds', 'cpu_seconds', 'peak_rss_megabytes']) {
        expect(figures[`${command}_${kind}`], `${command}_${kind}`).toBeGreaterThan(0)
      }
    }
    const { full_cpu_ratio, full_cpu_seconds, script_full_cpu_seconds } = figures as Record<string, number>
    const ratio = (full_cpu_seconds as number) / (script_full_cpu_seconds as number)
    expect(full_cpu_ratio).toBeCloseTo(ratio, 0)
  })

  it.skipIf(process.platform !== 'linux')('divides the CPU time of the full sync by thread and stage', () => {
    const { threads, figures } = company()
    expect(threads?.main?.start).toBeGreaterThan(0)
    const all = Object.values(threads ?? {}).flatMap(spent => STAGES.map(stage => spent[stage]))
    const seconds = all.reduce((sum, value) => sum + value, 0)
    expect(seconds).toBeCloseTo(figures.full_cpu_seconds as number, 1)
  })

  it('requests only the list, and publishes nothing, if nothing changed', () => {
    expect(run().unchanged).toMatchObject({ listed: NOTICES, unchanged: NOTICES, loaded: 0, requests: 1 })
    expect(company().figures).toMatchObject({
      unchanged_list_requests: 1,
      unchanged_analysis_requests: 0,
      unchanged_snapshots: 0,
    })
  })

  it('requests only the changed analyses and publishes once if 0.5 % changed', () => {
    expect(run().changed).toMatchObject({ changed: 1, loaded: 1, unchanged: NOTICES - 1, requests: 3 })
    expect(company().figures).toMatchObject({ changed_analysis_requests: 1, changed_snapshots: 1 })
  })

  it('leaves nothing behind', async () => {
    expect((await readdir(temporary)).filter(name => name.startsWith('editais-sync-bench-'))).toEqual([])
  })

  it('ends its processes and removes its data when interrupted', async () => {
    const child = spawn(process.execPath, ['bench/main.ts', '--notices', '100'], {
      cwd: root,
      env: environment(),
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    child.stderr.setEncoding('utf8')
    for await (const text of child.stderr.iterator({ destroyOnReturn: false })) {
      if (String(text).includes('full sync')) break
    }
    const servers = await childrenOf(child.pid as number)
    expect(servers.length).toBeGreaterThan(0)
    child.stderr.resume()
    child.kill('SIGINT')
    const [code] = await once(child, 'exit')
    expect(code).toBe(130)
    for (const pid of servers) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
    expect((await readdir(temporary)).filter(name => name.startsWith('editais-sync-bench-'))).toEqual([])
  }, 30_000)
})

it('fails if the rows of the script are not those of the sync', async () => {
  const notices = 5
  const apiKey = 'key'
  const server = await startServer({ companies: [{ notices, seed: 'rows', apiKey }], latencyMs: 0 })
  const directory = await mkdtemp(join(temporary, 'rows-'))
  await measureFirst({ small: { server, apiKey, notices }, concurrency: 4, directory })
  await server.close()
  const place = (name: string) => ({ server, apiKey, concurrency: 4, directory: join(directory, name) })
  const [sync, script] = [place('first-sync'), place('first-script')]
  await expectSameRows(sync, script)

  const items = join(script.directory, 'items.parquet')
  await rename(items, `${items}.whole`)
  const db = await Database.open(':memory:')
  await db.run(
    `COPY (FROM read_parquet(${literal(`${items}.whole`)}) OFFSET 1) TO ${literal(items)} (FORMAT parquet)`,
  )
  db.close()
  await expect(expectSameRows(sync, script)).rejects.toThrow(/^items: the sync made .*, the script /)
}, 30_000)

describe('the bench of the daemon', () => {
  type Found = { figures: Record<string, { worst: number } | null>; bars: { what: string; met: boolean }[] }

  it.skipIf(inject('redisBinary') === null || process.platform !== 'linux')(
    'measures workers that share a company, and an idle worker',
    async () => {
      const sizes = ['--companies', '1', '--notices', '5', '--idle', '1']
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['bench/main.ts', 'daemon', ...sizes, '--backfill', '0', '--json'],
        { cwd: root, env: environment() },
      )
      const { figures, bars } = JSON.parse(stdout) as Found
      const worst = (key: string) => figures[key]?.worst
      expect(worst('runs')).toBeGreaterThanOrEqual(2)
      for (const key of ['overlaps', 'health_failed']) {
        expect(worst(key), key).toBe(0)
      }
      for (const key of ['worker_peak_rss_megabytes', 'idle_rss_megabytes', 'health_p99_ms']) {
        expect(worst(key), key).toBeGreaterThan(0)
      }
      expect(bars).toContainEqual(expect.objectContaining({ limit: 1500, kind: 'most', met: true }))
      expect((await readdir(temporary)).filter(name => name.startsWith('editais-sync-bench-'))).toEqual([])
    },
    60_000,
  )

  it('counts runs that start before the previous run of their company has ended', () => {
    const run = (company: string, from: number, to: number) => ({
      company,
      started_at: new Date(from).toISOString(),
      finished_at: new Date(to).toISOString(),
    })
    expect(overlaps([run('a', 0, 9), run('b', 1, 3), run('b', 3, 4), run('a', 9, 12)])).toBe(0)
    expect(overlaps([run('a', 0, 9), run('b', 1, 3), run('b', 2, 4), run('a', 8, 12)])).toBe(2)
  })

  it('judges by the worst value, and only what was measured', () => {
    const bars = judgeDaemon({ health_p99_ms: { median: 90, worst: 101 }, overlaps: null })
    expect(bars).toMatchObject([{ value: 101, limit: 100, met: false }])
  })

  it('takes the value that the given share of values does not exceed', () => {
    const values = Array.from({ length: 200 }, (_, index) => 200 - index)
    expect([0.5, 0.99, 1].map(share => percentile(values, share))).toEqual([100, 198, 200])
  })
})

describe('the bench of the readers', () => {
  const figures = Object.fromEntries(BI_FIGURES.map(({ key }) => [key, 0]))
  const missed = (changes: Record<string, number>, notices = 20_000) =>
    judgeBi({ notices, figures: { ...figures, ...changes } }).filter(bar => !bar.met)

  it('passes a bar at its limit, and misses it beyond', () => {
    expect(missed({ orgaos_warm_ms: 200, report_wall_seconds: 5, report_megabytes: 2 })).toEqual([])
    const beyond = { orgaos_warm_ms: 201, report_wall_seconds: 5.1, report_megabytes: 2.1 }
    expect(missed(beyond).map(({ limit }) => limit)).toEqual([200, 5, 2])
    expect(missed({ orgaos_first_ms: 999 })).toEqual([])
  })

  it('reports if the newest months alone exceed what may be written', () => {
    const what = (newest: number) => missed({ months: 24, newest_percent: newest, written_percent: 21 })
    expect(what(8)).toMatchObject([{ what: '0.5 % changed, in the two newest of 24 months: written, %' }])
    expect(what(31)).toMatchObject([{ what: expect.stringContaining('they alone hold 31 %') }])
  })

  it('judges only figures that are meaningful at the given size', () => {
    expect(missed({ written_percent: 99 }, 30)).toEqual([])
    expect(missed({ orgaos_warm_ms: 999, written_percent: 99 }, 60_000)).toHaveLength(1)
  })

  it('counts the notices of the two newest months, across a year end too', () => {
    const rows = { '2024-11': 4, '2024-12': 2, '2025-01': 1 }
    const files = Object.entries(rows).map(([month, rows]) => ({
      month,
      rows,
      path: `editais/${month}.parquet`,
      bytes: 1,
      sha256: '',
    }))
    expect(monthsOf({ tables: { editais: { rows: 7, bytes: 3, files } } })).toEqual({
      months: 3,
      notices: 7,
      newestNotices: 3,
    })
  })
})

describe('the bench of a month', () => {
  const report = {
    ...newReport('r', 'incremental', new Date()),
    listed: 9,
    unchanged: 6,
    loaded: 3,
    requests: 4,
  }
  const fair = { networkFaults: networkFaultsAt('22', 2), notices: 9, requests: 4 }

  it.skipIf(process.platform !== 'linux')(
    'runs a living company, and finds no fault in its runs or notices',
    async () => {
      const directory = join(temporary, 'month')
      // One of the analyses in the first hour arrives truncated.
      const found = await benchMonth({ notices: 20, hours: 2, seed: '22' }, directory, () => {}).finally(
        killAll,
      )
      const { measured, figures, bars } = found
      expect(measured.hours).toMatchObject([
        { networkFaults: 'truncated', status: 'partial' },
        { networkFaults: 'fair', status: 'ok' },
      ])
      expect(measured.days).toMatchObject([{ hour: 2, segments: 9, snapshots: 3, rows: { sync_runs: 3 } }])
      expect(figures).toMatchObject({ runs: 2, not_ok: 1, tables_differ: 0, rss_ratio: null })
      expect(bars.filter(({ met }) => !met)).toEqual([])

      const data = join(directory, 'data')
      expect(await wrongNotices(data, 'bench', [])).toHaveLength(measured.notices)
      expect(await runsAmiss(data, 'bench', measured.hours)).toHaveLength(2)

      const run = measured.hours[0] as (typeof measured.hours)[number]
      const missed = (megabytes: (hour: number) => number) => {
        const held = (hour: number) => ({ ...run.held, rssBytes: megabytes(hour) * 1e6 })
        const hours = Array.from({ length: 72 }, (_, hour) => ({ ...run, held: held(hour) }))
        return judgeMonth(figuresOf({ ...measured, hours })).filter(({ met }) => !met)
      }
      // Garbage that is collected is not a leak; growth that stays is.
      expect(missed(hour => 200 + (hour % 10) * 10)).toEqual([])
      expect(missed(hour => 200 + (hour % 10) * 10 + hour)).toHaveLength(2)
    },
  )

  it('rejects a report that does not fit the faults, the world or the server', () => {
    const scanned = { ...report, scan_complete: true }
    expect(complaints(scanned, fair)).toEqual([])
    expect(complaints(scanned, { ...fair, networkFaults: networkFaultsAt('22', 1) })).toHaveLength(2)
    expect(complaints(scanned, { ...fair, notices: 10 })).toHaveLength(1)
    expect(complaints(scanned, { ...fair, requests: 5 })).toHaveLength(1)
    expect([scanned, { ...scanned, loaded: 2 }].map(isConserved)).toEqual([true, false])
  })
})

async function childrenOf(pid: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)('pgrep', ['-P', String(pid)])
  return stdout.trim().split(/\s+/).filter(Boolean).map(Number)
}

describe('the generated company', () => {
  it('is the same for the same seed, and differs for another', () => {
    const [one, same, other] = ['a', 'a', 'b'].map(seed => createCompany(30, seed).analysis(7, 0).json)
    expect(one).toBe(same)
    expect(one).not.toBe(other)
  })

  it('is listed newest first, over 24 months', () => {
    const months = createCompany(2000, 'a').subjects.map(({ createdAt }) =>
      createdAt.toISOString().slice(0, 7),
    )
    expect(months).toEqual([...months].sort().reverse())
    expect(new Set(months).size).toBe(24)
  })

  it('writes its documents as JSON.stringify does, so that none counts as changed', () => {
    const { json } = createCompany(30, 'a').analysis(3, 1)
    expect(JSON.stringify(JSON.parse(json))).toBe(json)
  })
})

describe('a bar', () => {
  const figures = Object.fromEntries(FIGURES.map(({ key }) => [key, 0]))
  const verdicts = (changes: Record<string, number>, notices = 20_000) =>
    judge([{ notices, figures: { ...figures, ...changes } }], { latencyMs: 0, concurrency: 16 })

  const missed = (changes: Record<string, number>, notices?: number) =>
    verdicts(changes, notices).filter(bar => !bar.met)

  it('is missed beyond its limit, and met at it', () => {
    expect(missed({ full_cpu_ratio: 0.7, full_wall_ratio: 0.6, unchanged_cpu_ratio: 1 })).toEqual([])
    expect(missed({ full_cpu_ratio: 0.71 })).toMatchObject([
      { what: 'full sync: CPU / script', value: 0.71, limit: 0.7 },
    ])
    const starts = { first_cpu_seconds: 0.51, status_cpu_seconds: 0.26 }
    expect(missed({ ...starts, full_tail_percent: 16, changed_cpu_ratio: 2.1 })).toHaveLength(4)
  })

  it('compares with the script only companies that take longer than the start', () => {
    expect(missed({ full_cpu_ratio: 9, unchanged_cpu_ratio: 9 }, 4999)).toEqual([])
    expect(missed({ full_cpu_ratio: 9, unchanged_cpu_ratio: 9 }, 5000)).toHaveLength(2)
  })

  it('compares the memory of a larger company with that of the first one', () => {
    const sized = (notices: number, rss: number) => ({
      notices,
      figures: { ...figures, full_peak_rss_megabytes: rss },
    })
    const growth = (rss: number) =>
      judge([sized(20_000, 1000), sized(60_000, rss)], { latencyMs: 0, concurrency: 16 }).find(bar =>
        bar.what.includes('above'),
      )
    expect(growth(1100)).toMatchObject({ met: true, limit: 15 })
    expect(growth(1200)).toMatchObject({ met: false })
  })

  it('with latency is the share of the possible requests', () => {
    const company = { notices: 5000, figures: { ...figures, fetch_requests_per_second: 288 } }
    expect(judge([company], { latencyMs: 50, concurrency: 16 })).toMatchObject([
      { value: 90, limit: 90, kind: 'least', met: true },
    ])
  })
})

it('takes the median of the runs: for an even number, the mean of the middle two', () => {
  expect(median([3, 1, 2])).toBe(2)
  expect(median([4, 1, 2, 3])).toBe(2.5)
})

it('shows the median, with the least and the greatest value of several runs', () => {
  const text = describeBench(benchOf({ full_cpu_seconds: 3 }, { full_cpu_seconds: { least: 2, most: 5 } }))
  expect(text).toMatch(/full sync: CPU, s\s+│ 3 \(2-5\)/)
  expect(text).toContain('CPU of the full sync of 30 notices by thread and stage, s: not available')
})

/** A result of one company without anything but these figures. */
function benchOf(
  figures: Record<string, number>,
  spread: Record<string, { least: number; most: number }>,
): Bench {
  const rows = { requirements: 0, items: 0, alerts: 0 }
  return {
    machine: { processor: 'any', cores: 2, memoryGigabytes: 8, node: 'v26' },
    settings: { latencyMs: 0, concurrency: 16, runs: 3, seed: 'bench' },
    companies: [
      {
        notices: NOTICES,
        about: { notices: 30, averageBytes: 1, largestBytes: 1, averageChildren: 1, rows, compression: 1 },
        figures,
        spread,
        threads: null,
        runs: [],
      },
    ],
    bars: [],
  }
}
