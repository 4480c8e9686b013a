import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { World } from '#src/sandbox/world.ts'
import { surroundings } from '#test/support/project.ts'
import { childrenOf } from '#tools/proc.ts'
import { companyOf, startApi } from '../../bench/company/api.ts'
import { createCompany } from '../../bench/company/company.ts'
import { differences, placeOf } from '../../bench/company/place.ts'
import { measureSituation } from '../../bench/frame/runner.ts'
import { killAll, npmScript } from '../../bench/processes/processes.ts'
import { month } from '../../bench/situations/month.ts'
import { expectSameRows, measureFirst } from '../../bench/sync/measure.ts'
import { STAGES } from '../../bench/sync/threads.ts'

const NOTICES = 30
const root = fileURLToPath(new URL('../..', import.meta.url))

type Printed = {
  readonly figures: readonly {
    readonly key: string
    readonly label: string
    readonly table: string | null
    readonly column: string | null
    readonly value: number | null
  }[]
  readonly bars: readonly { readonly what: string; readonly limit: number; readonly met: boolean }[]
  readonly records: Readonly<Record<string, readonly Record<string, unknown>[]>>
}
type Ended = { readonly code: number; readonly printed: Printed }

let temporary: string
let sync: Ended

/** The compile cache is outside the directory that must be empty afterwards. */
const environment = () => ({ ...process.env, ...surroundings(), TMPDIR: temporary })

/** The command line of `npm run bench`. Bars may be missed: machines differ. */
async function bench(...args: string[]): Promise<Ended> {
  const options = { cwd: root, env: environment() }
  const words = await npmScript('bench', ...args, '--json')
  const { code = 0, stdout } = await promisify(execFile)(process.execPath, words, options).catch(error => {
    if (error.code === 1 && error.stdout !== '') return error
    throw error
  })
  return { code, printed: JSON.parse(stdout) }
}

const valueIn = ({ printed }: Ended, key: string) => printed.figures.find(each => each.key === key)?.value
const left = async () => (await readdir(temporary)).filter(name => name.startsWith('editais-sync-bench-'))

beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), 'bench-test-'))
  sync = await bench('--notices', String(NOTICES), '--changed', '1')
}, 120_000)

afterAll(() => rm(temporary, { recursive: true, force: true }))

describe('the bench', () => {
  const value = (key: string) => valueIn(sync, key) as number
  const report = (name: string) => sync.printed.records.reports?.[0]?.[name]

  it('prints every figure as a number', () => {
    expect(sync.printed.figures.length).toBeGreaterThan(50)
    for (const { key, value } of sync.printed.figures) expect(value, key).toBeGreaterThanOrEqual(0)
  })

  it('exits with 1 if a bar is missed, otherwise with 0', () => {
    expect(sync.printed.bars.length).toBeGreaterThan(5)
    expect(sync.code).toBe(sync.printed.bars.every(({ met }) => met) ? 0 : 1)
  })

  it('serves documents of realistic size and content', () => {
    const { notices, averageBytes, averageChildren, compression } = sync.printed.records.companies?.[0] ?? {}
    expect(notices).toBe(NOTICES)
    expect(averageBytes).toBeGreaterThan(30_000)
    expect(averageBytes).toBeLessThan(45_000)
    expect(averageChildren).toBeGreaterThan(40)
    expect(averageChildren).toBeLessThan(60)
    expect(compression).toBeGreaterThan(4)
    expect(compression).toBeLessThan(8)
  })

  it('measures a full sync that loads every notice', () => {
    const full = report('full') as { bytes_fetched: number }
    expect(full).toMatchObject({ listed: NOTICES, loaded: NOTICES, requests: NOTICES + 1 })
    expect(full.bytes_fetched).toBeGreaterThanOrEqual(NOTICES * 30_000)
    expect(value('notices_per_second')).toBeCloseTo(NOTICES / value('full_wall_seconds'), -1)
  })

  it('measures wall time, CPU time and memory of every command, and that of the script beside', () => {
    const commands = ['full', 'unchanged', 'changed', 'first'].flatMap(key => [key, `script_${key}`])
    for (const command of [...commands, 'status']) {
      for (const kind of ['wall_seconds', 'cpu_seconds', 'peak_rss_megabytes']) {
        expect(value(`${command}_${kind}`), `${command}_${kind}`).toBeGreaterThan(0)
      }
    }
    expect(value('full_cpu_ratio')).toBeCloseTo(
      value('full_cpu_seconds') / value('script_full_cpu_seconds'),
      0,
    )
  })

  it.skipIf(process.platform !== 'linux')('divides the CPU time of the full sync by thread and stage', () => {
    const cells = sync.printed.figures.filter(({ table }) =>
      table?.startsWith('CPU of the full sync of 30 notices'),
    )
    const seconds = (row: string, column: string) =>
      cells.find(each => each.label === row && each.column === column)?.value ?? 0
    expect(seconds('main', 'start')).toBeGreaterThan(0)
    const kinds = new Set(cells.map(({ label }) => label).filter(label => label !== 'all'))
    const parts = [...kinds].flatMap(kind => STAGES.map(stage => seconds(kind, stage)))
    expect(seconds('all', 'all')).toBeCloseTo(value('full_cpu_seconds'), 1)
    expect(parts.reduce((sum, part) => sum + part, 0)).toBeCloseTo(value('full_cpu_seconds'), 1)
  })

  it('requests only the list, and publishes nothing, if nothing changed', () => {
    expect(report('unchanged')).toMatchObject({
      ...{ listed: NOTICES, unchanged: NOTICES, loaded: 0, requests: 1 },
    })
    const counts = ['list_requests', 'analysis_requests', 'snapshots'].map(key => value(`unchanged_${key}`))
    expect(counts).toEqual([1, 0, 0])
  })

  it('requests only the changed analyses and publishes once if some changed', () => {
    expect(report('changed')).toMatchObject({ changed: 1, loaded: 1, unchanged: NOTICES - 1, requests: 3 })
    expect(['analysis_requests', 'snapshots'].map(key => value(`changed_${key}`))).toEqual([1, 1])
  })

  it('leaves nothing behind', async () => {
    expect(await left()).toEqual([])
  })

  it.skipIf(process.platform !== 'linux')(
    'ends its processes and removes its data when interrupted',
    async () => {
      const child = spawn(process.execPath, ['bench/main.ts', '--notices', '100'], {
        cwd: root,
        env: environment(),
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      child.stderr.setEncoding('utf8')
      for await (const text of child.stderr.iterator({ destroyOnReturn: false })) {
        if (String(text).includes('full sync')) break
      }
      const servers = childrenOf(child.pid as number)
      expect(servers.length).toBeGreaterThan(0)
      child.stderr.resume()
      child.kill('SIGINT')
      const [code] = await once(child, 'exit')
      expect(code).toBe(130)
      for (const pid of servers) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
      expect(await left()).toEqual([])
    },
    30_000,
  )
})

it('fails if the rows of the script are not those of the sync', async () => {
  const company = companyOf({ notices: 5, seed: 'rows' })
  const api = await startApi([company])
  const directory = await mkdtemp(join(temporary, 'rows-'))
  await measureFirst({ company, api }, directory)
  await api.close()
  const ours = await placeOf(join(directory, 'first-sync'), { ...company, url: api.url })
  const script = { directory: join(directory, 'first-script') }
  await expectSameRows(ours, script)

  const items = join(script.directory, 'items.parquet')
  await rename(items, `${items}.whole`)
  const db = await Database.open(':memory:')
  await db.run(
    `COPY (FROM read_parquet(${literal(`${items}.whole`)}) OFFSET 1) TO ${literal(items)} (FORMAT parquet)`,
  )
  db.close()
  await expect(expectSameRows(ours, script)).rejects.toThrow(/^items: the sync made .*, the script /)
}, 30_000)

it.skipIf(inject('redisBinary') === null || process.platform !== 'linux')(
  'a worker is measured with companies that change all the time, and with nothing new',
  async () => {
    const small = ['--companies', '2', '--notices', '5']
    const steady = await bench('steady', ...small, '--every', '10', '--changes', '1', '--seconds', '60')
    expect(valueIn(steady, 'runs')).toBeGreaterThanOrEqual(4)
    for (const key of ['bad_runs', 'errors', 'health_failed', 'left_behind'])
      expect(valueIn(steady, key), key).toBe(0)
    for (const key of ['first_seconds', 'run_cpu_seconds', 'metrics_seconds', 'stop_seconds'])
      expect(valueIn(steady, key), key).toBeGreaterThan(0)

    const idle = await bench('idle', ...small, '--seconds', '10')
    for (const key of ['worker_ms', 'redis_ms', 'run_ms', 'last_seconds', 'load_24h_percent'])
      expect(valueIn(idle, key), key).toBeGreaterThan(0)
    expect(await left()).toEqual([])
  },
  180_000,
)

it('the bench of a month runs a living company, and rebuilds and compares it', async () => {
  const directory = await mkdtemp(join(temporary, 'month-'))
  const found = await measureSituation(month, { notices: 20, hours: 26, seed: '22' }, directory).finally(
    killAll,
  )
  const value = (key: string) => found.figures.find(each => each.key === key)?.values[0]
  expect(['runs', 'wrong_notices', 'segments_a_day'].map(value)).toEqual([26, 0, 24])
  for (const key of ['changes', 'loaded', 'rebuild_seconds', 'segment_ms', 'year_rebuild_seconds'])
    expect(value(key), key).toBeGreaterThan(0)
  const cells = (column: string) =>
    found.figures.filter(each => each.column === column).map(each => each.label)
  expect(cells('segments')).toEqual(['1', '2'])

  const place = { directory, env: { DATA_DIR: join(directory, 'data') } }
  const none = { ...companyOf({ notices: 0, seed: '22' }), world: new World([]) }
  expect(await differences(place, none)).toHaveLength(value('notices') as number)
}, 120_000)

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
