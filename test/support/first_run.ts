import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import { readSettings, type Settings } from '#config/settings.ts'
import { type CompanyPaths, companyPaths } from '#src/core/company/company.ts'
import type { CompanyState } from '#src/core/company/state.ts'
import { createTableRelations } from '#src/core/lake/catalog.ts'
import { latestLink, type Manifest } from '#src/core/lake/manifest.ts'
import { explainOutdated, readListIndex, writeListIndex } from '#src/core/pipeline/list_index.ts'
import { findSystemCode } from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { World } from '#src/sandbox/world.ts'
import { reportHere } from './here.ts'
import type { Environment } from './project.ts'
import { inWorkerDatabase } from './worker_database.ts'

const run = promisify(execFile)

/**
 * Leaves in DATA_DIR what a first run of this company leaves there: a copy of what the first test with these notices
 * and settings got from its run. It takes a tenth of the run's CPU time.
 * @param environment of an empty DATA_DIR, and of an API that serves `world` without faults.
 */
export async function leaveFirstRun(world: World, environment: Environment): Promise<void> {
  const settings = readSettings(environment)
  const paths = companyPaths(settings.dataDir, settings.company)
  // With modes, times, and the links between `rows/` and the lake.
  await run('cp', ['-a', `${await firstRun(world, environment)}/.`, settings.dataDir])
  await settleAt(paths, settings)
}

/** The directory with a first run's files, for all tests of this run of vitest. */
async function firstRun(world: World, environment: Environment): Promise<string> {
  const { API_BASE_URL: _, DATA_DIR: __, ...settings } = environment
  const entries = world.ids().map(id => world.entry(id))
  const name = `first-run-${hashContent(JSON.stringify([entries, settings]))}`
  const place = join(inject('runDirectory'), name)
  if (existsSync(place)) return place
  const made = await mkdtemp(`${place}-`)
  await makeFirstRun({ ...environment, DATA_DIR: made })
  try {
    await rename(made, place)
  } catch (error) {
    // Another worker was quicker; its directory is as good.
    if (!['ENOTEMPTY', 'EEXIST'].includes(findSystemCode(error) ?? '')) throw error
    await rm(made, { recursive: true })
  }
  return place
}

/** @throws Error if it is not ok, or leaves an index that does not fit its files: in a copy, it would be adapted. */
async function makeFirstRun(environment: Environment): Promise<void> {
  const { status } = await reportHere(environment)
  if (status !== 'ok') throw new Error(`the first run ended as ${status}`)
  const settings = readSettings(environment)
  const paths = companyPaths(settings.dataDir, settings.company)
  const read = await readListIndex(paths)
  const why = read && (await explainOutdated(read.index, { paths, settings }, new Date()))
  if (why) throw new Error(`the index of the first run is outdated: ${why}`)
}

/** Adapts what names the place of the files: the catalog's views, manifest, state and index of the list. */
async function settleAt(paths: CompanyPaths, settings: Settings): Promise<void> {
  const directory = await realpath(latestLink(paths.lake))
  const manifestPath = join(directory, 'manifest.json')
  const manifest: Manifest = JSON.parse(await readFile(manifestPath, 'utf8'))
  const catalog_sha256 = await moveCatalog(manifest, directory)
  await replace(manifestPath, `${JSON.stringify({ ...manifest, directory, catalog_sha256 }, null, 2)}\n`)
  const state: CompanyState = JSON.parse(await readFile(paths.state, 'utf8'))
  const snapshot = { ...state.snapshot, directory }
  await replace(paths.state, `${JSON.stringify({ ...state, snapshot })}\n`)
  const read = await readListIndex(paths)
  // With its new basis and place.
  if (read) await writeListIndex({ paths, settings }, read.index, read.index.place.segments)
}

/** Returns the hash of the catalog with the new paths. */
async function moveCatalog(manifest: Manifest, directory: string): Promise<string> {
  const { company, snapshot, created_at: publishedAt, source_timezone: sourceTimezone } = manifest
  const files = new Map(Object.entries(manifest.tables).map(([name, table]) => [name, table.files]))
  const path = join(directory, 'catalog.duckdb')
  const source = { company, snapshot, publishedAt, sourceTimezone, directory, files }
  const moved = join(dirname(directory), `${snapshot}.catalog`)
  await writeFile(moved, await readFile(path))
  await inWorkerDatabase(db => db.inFile(moved, () => createTableRelations(db, [source])))
  const bytes = await readFile(moved)
  await rm(moved)
  await replace(path, bytes)
  return hashContent(bytes)
}

/** Writes another file with the name and mode of one that may be read-only. */
async function replace(path: string, content: string | Buffer): Promise<void> {
  const { mode } = await stat(path)
  await rm(path)
  await writeFile(path, content, { mode })
}
