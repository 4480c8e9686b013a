import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type CompanyPaths, companyPaths } from '#src/core/company/company.ts'
import { openOptions } from '#src/core/pipeline/run.ts'
import { rebuildWarehouse } from '#src/core/warehouse/warehouse.ts'
import { DURABLE_STEPS } from '#src/lib/durable.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { type Entry, World } from '#src/sandbox/world.ts'
import { checkTruth } from '#test/simulation/oracle.ts'
import { readStored } from '#test/simulation/stored.ts'
import { checkSameTables, setWarehouseAside } from '#test/simulation/tables.ts'
import type { EndAtStep } from './end_at_step.ts'
import { contextHere, syncHere } from './here.ts'
import { bareNotice, idOf, notices } from './notices.ts'
import { type Environment, settingsFor, surroundings } from './project.ts'
import { runShared } from './shared.ts'
import { KEY } from './synced.ts'

const MAIN = join(import.meta.dirname, '../../src/cli/main.js')
const PRELOAD = join(import.meta.dirname, 'end_at_step.ts')

type Step = (typeof DURABLE_STEPS)[number]

/** Their runs, and the run after them, apply the whole log again. */
const REBUILDS: readonly Step[] = ['rebuilt.directory', 'rebuilt.rename', 'rows.rename', 'rows.remove']

const [LAST, ...OTHERS] = DURABLE_STEPS.toReversed() as [Step, ...Step[]]

/**
 * The steps in the order of a chain. Last step first: a run that dies late has published, so the next one finds
 * snapshots. Then the rebuilds, while the log is short.
 */
export const CHAINED_STEPS: readonly Step[] = [
  LAST,
  ...REBUILDS,
  ...OTHERS.filter(step => !REBUILDS.includes(step)),
]

/** A company whose runs all end early: each starts from the state that the previous one left, with new changes. */
export type CrashChain = {
  readonly paths: CompanyPaths
  /** Runs `sync` in a process that gets a signal when it reaches a step. */
  runUntil(
    at: NonNullable<EndAtStep['at']>,
  ): Promise<{ code: number | null; stderr: string; reached: boolean }>
  /** Makes an undisturbed run; the result must be as if none had been disturbed. */
  expectConverged(): Promise<void>
  close(): Promise<void>
}

/** @param others further notices, which stay as they are. */
export async function startCrashChain(others: readonly Entry[] = []): Promise<CrashChain> {
  const place = await realpath(await mkdtemp(join(tmpdir(), 'editais-sync-crash-')))
  const world = new World([...notices(1, 8), ...others])
  const sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world }] })
  const environment: Environment = {
    ...settingsFor({ url: sandbox.url, key: KEY, dataDir: place }),
    SNAPSHOT_KEEP: '0s',
  }
  const paths = companyPaths(place, 'acme')
  let runs = 0
  return {
    paths,
    async runUntil(at) {
      runs += 1
      // Files can be linked only if there is a finished snapshot.
      if (at.step === 'parquet.link') expect((await syncHere(environment)).report.status).toBe('ok')
      change(world, runs, at.step)
      await prepare(paths, at.step as Step)
      const log = join(place, `${runs}.steps`)
      const ended = await runCommandAt(environment, { log, at })
      const steps = existsSync(log) ? readFileSync(log, 'utf8').split('\n') : []
      return { ...ended, reached: steps.includes(at.step) }
    },
    async expectConverged() {
      const { report } = await syncHere(environment)
      expect(report).toMatchObject({ status: 'ok', scan_complete: true })
      checkTruth(await readStored(paths), world, { isExcluded: () => false, silentChangesSeen: true })
      expect((await readdir(paths.raw)).filter(name => !name.endsWith('.zst'))).toEqual([])
      expect((await readdir(paths.root)).filter(name => /next|tmp|part/.test(name))).toEqual([])
      await expectSameAsRebuilt(paths, environment)
    },
    async close() {
      await sandbox.close()
      await rm(place, { recursive: true, force: true })
    },
  }
}

/** Changes a notice, and sometimes adds or removes one; for some steps also a notice of another month. */
function change(world: World, run: number, step: string): void {
  world.update(idOf(1), { edital: { objeto: `Objeto v${run}` } })
  if (run % 3 === 1) world.put(bareNotice(2 * run + 99))
  if (run % 3 === 2) world.remove(idOf(2 * run + 97))
  if (!['parquet.rename', 'parquet.remove'].includes(step)) return
  world.update(idOf(2), { analysis: { alerts: [] }, updatedAt: new Date(Date.UTC(2026, 10, 20, 0, run)) })
}

/** Prepares what makes a run reach the step. */
async function prepare({ raw, lake, warehouse, temporary }: CompanyPaths, step: Step): Promise<void> {
  await mkdir(raw, { recursive: true })
  if (step === 'directories.sync') await rm(temporary, { recursive: true, force: true })
  if (step === 'unsealed.remove') await writeFile(join(raw, '999999.ndjson.zst.part'), 'half of some')
  if (step === 'unfinished.remove')
    await mkdir(join(lake, 'snapshots/20990101T000000Z-000099/editais'), { recursive: true })
  if (step.startsWith('rebuilt.') || step === 'rows.rename') await rm(warehouse, { force: true })
}

/** A run that gets SIGTERM ends by itself, so it can use the shared process. */
async function runCommandAt(environment: Environment, end: EndAtStep) {
  const own = { ...environment, TEST_END_AT_STEP: JSON.stringify(end) }
  if (end.at?.signal === 'SIGTERM') return await runShared(['sync', '--json'], own)
  const child = spawn(process.execPath, ['--import', PRELOAD, MAIN, 'sync', '--json'], {
    cwd: environment.DATA_DIR,
    env: { ...surroundings(), ...own },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    stderr += text
  })
  const code = await new Promise<number | null>(resolve => child.on('close', resolve))
  return { code, stderr }
}

async function expectSameAsRebuilt(paths: CompanyPaths, environment: Environment): Promise<void> {
  const before = await setWarehouseAside(paths)
  const { db } = await rebuildWarehouse(openOptions(contextHere(environment)))
  db.close()
  await checkSameTables(before, paths.warehouse)
}
