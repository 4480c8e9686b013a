import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { companyPaths } from '#src/company.ts'
import { DURABLE_STEPS, type DurableStep } from '#src/durable.ts'
import { type Sandbox, startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { checkSameTables, readStored } from './simulation/oracle.ts'
import type { EndAtStep } from './support/end_at_step.ts'
import { syncHere } from './support/here.ts'
import { idOf, noticeEntry, notices } from './support/notices.ts'
import { type Environment, settingsFor } from './support/project.ts'
import { KEY } from './support/synced.ts'

const MAIN = join(import.meta.dirname, '../src/cli/main.ts')
const PRELOAD = join(import.meta.dirname, 'support/end_at_step.ts')
/** What depends on when a run happened and which one it was. */
const OF_THE_RUN = [
  ...['run_id', 'fetched_at', 'observed_at', 'first_seen_at', 'changed_at', 'deleted_at', 'last_seen_at'],
  ...['next_attempt_at', 'resolved_at', '_segment', '_seq', 'attempts'],
]
const OF_ITS_OWN = ['meta', 'applied_segments', 'month_versions', 'sync_runs']

/**
 * Directories from which a run comes to all the steps: the first run, and one that finds snapshots past their
 * time and months without a change. Both also find what killed runs left.
 */
type Start = 'first' | 'later'

/** One analysis is broken; the later run does not try it again yet. */
const undisturbedCode = { first: 3, later: 0 } as const

let place: string
let sandbox: Sandbox
/** By start: the steps that an undisturbed run comes to. */
const reached = new Map<Start, ReadonlySet<string>>()

beforeAll(async () => {
  place = await realpath(await mkdtemp(join(tmpdir(), 'editais-sync-crash-')))
  const world = new World(notices(1, 12))
  sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world }] })
  sandbox.faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids: [idOf(3)] }]
  await mkdir(join(place, 'first/acme'), { recursive: true })
  const later = environmentAt('later')
  for (let version = 1; version <= 3; version += 1) {
    world.update(idOf(1), { edital: { objeto: `Objeto v${version}` } })
    await syncHere(later)
  }
  world.update(idOf(5), { edital: { objeto: 'Outro objeto' }, analysis: { alerts: [] } })
  world.remove(idOf(7))
  world.put(noticeEntry(13))
  for (const start of ['first', 'later'] as const) {
    await leaveBehind(start)
    const ended = await runFrom(start, `${start}-undisturbed`, null)
    expect(ended.code).toBe(undisturbedCode[start])
    reached.set(start, new Set(ended.steps))
  }
})

afterAll(async () => {
  await sandbox.close()
  await rm(place, { recursive: true, force: true })
})

function environmentAt(name: string): Environment {
  const settings = settingsFor({ url: sandbox.url, key: KEY, dataDir: join(place, name) })
  return { ...settings, SNAPSHOT_KEEP: '0s' }
}

/** An unsealed segment and half a snapshot. */
async function leaveBehind(start: Start): Promise<void> {
  const root = join(place, start, 'acme')
  await mkdir(join(root, 'raw'), { recursive: true })
  await mkdir(join(root, 'lake/snapshots/20990101T000000Z-000099/editais'), { recursive: true })
  await writeFile(join(root, 'raw/000099.ndjson.zst.part'), 'half of some')
}

/** Runs `sync` on a copy of a start, and sends it a signal at a step. */
async function runFrom(start: Start, name: string, at: EndAtStep['at']) {
  const environment = environmentAt(name)
  await cp(join(place, start), join(place, name), { recursive: true, verbatimSymlinks: true })
  const log = join(place, `${name}.steps`)
  const child = spawn(process.execPath, ['--import', PRELOAD, MAIN, 'sync', '--json'], {
    cwd: place,
    env: {
      ...{ PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: tmpdir() },
      ...environment,
      TEST_END_AT_STEP: JSON.stringify({ log, at } satisfies EndAtStep),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    stderr += text
  })
  const code = await new Promise<number | null>(resolve => child.on('close', resolve))
  const steps = existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : []
  return { environment, code, stderr, steps }
}

test('an undisturbed run comes to every durable step that there is, from one start or the other', () => {
  const all = new Set([...(reached.get('first') ?? []), ...(reached.get('later') ?? [])])
  expect([...all].sort()).toEqual([...DURABLE_STEPS].sort())
})

async function expectConverged(start: Start, environment: Environment): Promise<void> {
  const paths = companyPaths(environment.DATA_DIR ?? '', 'acme')
  const undisturbed = companyPaths(join(place, `${start}-undisturbed`), 'acme')
  await checkSameTables(undisturbed.warehouse, paths.warehouse, { columns: OF_THE_RUN, tables: OF_ITS_OWN })
  // The latest snapshot is whole, and the warehouse's state.
  await readStored(paths)
  expect((await readdir(paths.raw)).filter(name => !name.endsWith('.zst'))).toEqual([])
  expect((await readdir(paths.root)).filter(name => /next|tmp|part/.test(name))).toEqual([])
}

function startOf(step: DurableStep): Start {
  return reached.get('first')?.has(step) ? 'first' : 'later'
}

test.each(DURABLE_STEPS)('killed after %s, a run is finished by the next one', async step => {
  const start = startOf(step)
  const ended = await runFrom(start, `killed ${step}`, { step, when: 'after', signal: 'SIGKILL' })
  expect(ended.code).toBeNull()
  await syncHere(ended.environment)
  await expectConverged(start, ended.environment)
})

test.each(DURABLE_STEPS)(
  'stopped before %s, a run keeps what it has, and the next one goes on',
  async step => {
    const start = startOf(step)
    const ended = await runFrom(start, `stopped ${step}`, { step, when: 'before', signal: 'SIGTERM' })
    // Too late to stop anything, it has ended as it would.
    expect([undisturbedCode[start], 130]).toContain(ended.code)
    expect(ended.stderr).not.toMatch(/Unexpected|at .*\.ts/)
    if (ended.code === 130) await syncHere(ended.environment)
    await expectConverged(start, ended.environment)
  },
)
