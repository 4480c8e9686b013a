import { chmod, cp, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readLatestName } from '#src/core/lake/manifest.ts'
import { openOptions, publishWarehouse } from '#src/core/pipeline/run.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { openWarehouse, rebuildWarehouse } from '#src/core/warehouse/warehouse.ts'
import type { Finding } from '#src/extras/extra.ts'
import { type Diagnosis, diagnose } from '#src/operate/doctor/doctor.ts'
import { salvage } from '#src/operate/replay.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { splitRuns } from './folded_log.ts'
import { contextHere, syncHere } from './here.ts'
import { idOf, notices } from './notices.ts'
import { companyDirectory, type Environment, settingsFor } from './project.ts'
import { KEY } from './synced.ts'

/** A company's directory that can be damaged and restored. */
export type Prepared = {
  readonly environment: Environment
  readonly directory: string
  restore(): Promise<void>
  /** Restores only the log and the warehouse: faster, for tests that damage nothing else. */
  restoreLog(): Promise<void>
  remove(): Promise<void>
}

/** Makes two runs over nine notices of two months, of three segments each, for all tests of a file; then the API is closed. */
export async function prepareDirectory(): Promise<Prepared> {
  const dataDir = await realpath(await mkdtemp(join(tmpdir(), 'editais-sync-doctor-test-')))
  const world = new World(notices(1, 9))
  const sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world }] })
  const environment = settingsFor({ url: sandbox.url, key: KEY, dataDir })
  try {
    await syncHere(environment)
    world.update(idOf(2), { edital: { objeto: 'Mudou' }, updatedAt: new Date('2026-11-20T12:00:00Z') })
    await syncHere(environment)
  } finally {
    await sandbox.close()
  }
  const directory = companyDirectory(environment)
  await splitRuns(join(directory, 'raw'))
  await rm(join(directory, 'warehouse.duckdb'))
  await publishHere(environment)
  // The lock file that a command leaves.
  await writeFile(join(directory, 'lock'), '', { mode: 0o600 })
  const kept = join(dataDir, 'kept')
  const copy = (from: string, to: string) =>
    cp(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
  await copy(directory, kept)
  return {
    environment,
    directory,
    async restore() {
      await rm(directory, { recursive: true, force: true })
      await copy(kept, directory)
    },
    remove: () => rm(dataDir, { recursive: true, force: true }),
    async restoreLog() {
      for (const name of ['raw', 'warehouse.duckdb']) {
        await rm(join(directory, name), { recursive: true, force: true })
        await copy(join(kept, name), join(directory, name))
      }
    },
  }
}

/** Diagnoses as the command does, in this process. */
export async function diagnoseHere(environment: Environment, quick = false): Promise<Diagnosis> {
  const { paths, settings, signal } = contextHere(environment)
  return await diagnose({
    now: new Date(),
    paths,
    signal,
    quick,
    newId: () => 'doctor',
    sourceTimezone: settings.sourceTimezone,
    settings,
    isHeld: true,
    deadHolder: null,
    onProgress: () => {},
  })
}

export function problemsOf({ findings }: Diagnosis): Finding[] {
  return findings.filter(({ status }) => status === 'problem')
}

export function warningsOf({ findings }: Diagnosis): Finding[] {
  return findings.filter(({ status }) => status === 'warning')
}

/** The commands that a finding may recommend, and their execution; only on paths of the test. */
const COMMANDS: Readonly<Record<string, (environment: Environment, path: string) => Promise<unknown>>> = {
  'editais rebuild --salvage': async environment => {
    await salvage(contextHere(environment))
    await rebuildHere(environment)
  },
  'editais rebuild': rebuildHere,
  'editais publish': publishHere,
  'rm -r': (_, path) => rm(path, { recursive: true }),
  rm: (_, path) => rm(path),
  'chmod 444': (_, path) => chmod(path, 0o444),
}
const COMMAND =
  /(editais rebuild --salvage|editais rebuild|editais publish|rm -r|rm|chmod 444)\b ?(\/[^,\s]+)?/g

/** Runs the commands that the findings recommend, each once, in order. */
export async function mend(environment: Environment, findings: readonly Finding[]): Promise<void> {
  const commands = new Map<string, readonly [string, string]>()
  for (const finding of findings) {
    const found = [...(finding.mend ?? '').matchAll(COMMAND)]
    if (found.length === 0) throw new Error(`the finding recommends no command: ${JSON.stringify(finding)}`)
    for (const [all, command = '', path = ''] of found) commands.set(all, [command, path])
  }
  for (const [command, path] of commands.values()) await COMMANDS[command]?.(environment, path)
}

async function rebuildHere(environment: Environment): Promise<void> {
  const context = contextHere(environment)
  const warehouse = await rebuildWarehouse(openOptions(context))
  await publishWarehouse(context, warehouse).finally(() => warehouse.db.close())
}

export async function publishHere(environment: Environment): Promise<void> {
  const context = contextHere(environment)
  const warehouse = await openWarehouse(openOptions(context))
  await publishWarehouse(context, warehouse).finally(() => warehouse.db.close())
}

/** The latest snapshot's directory and its notice files. */
export async function latestOf(directory: string): Promise<{ path: string; notices: string[] }> {
  const lake = join(directory, 'lake')
  const path = join(lake, 'snapshots', (await readLatestName(lake)) as string)
  const names = (await readdir(join(path, 'editais'))).sort()
  return { path, notices: names.map(name => join(path, 'editais', name)) }
}

/** Runs statements on a database file that the program would not run. */
export async function inDatabase(path: string, ...statements: readonly string[]): Promise<void> {
  const db = await Database.open(path, { threads: 1 })
  try {
    for (const sql of statements) await db.run(sql)
    await db.run('CHECKPOINT')
  } finally {
    db.close()
  }
}
