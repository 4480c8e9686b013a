import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RunReport } from '#src/core/company/run_report.ts'
import type { Manifest } from '#src/core/lake/manifest.ts'
import { openOptions } from '#src/core/pipeline/run.ts'
import { readLines, sealedSegments, segmentPath } from '#src/core/rawlog/files.ts'
import { rebuildWarehouse } from '#src/core/warehouse/warehouse.ts'
import { KEY } from './alter.ts'
import { assertHolds } from './assertions.ts'
import { attempt } from './attempt.ts'
import { oneLook } from './looks.ts'
import { CALM } from './network_faults.ts'
import { contextOf } from './operations.ts'
import * as oracle from './oracle.ts'
import { OTHER_KEY, type Play } from './play.ts'
import { checkLatest } from './snapshots.ts'
import type { Stored } from './stored.ts'
import { checkSameTables, checkStoredMarts, countRuns, setWarehouseAside } from './tables.ts'

const HOUR_MS = 3_600_000

/** Without faults and changes, the warehouse must become correct. */
export async function quietEnd(play: Play): Promise<void> {
  const { company, clock, environment } = play
  Object.assign(company, { alterations: 0, changesPerAnswer: 0 })
  // Later than any earlier time, so that nothing waits for its next attempt.
  clock.now = new Date(clock.now.getTime() + 60 * 24 * HOUR_MS)
  const quiet: Play = { ...play, environment: { ...environment, API_TIMEOUT_MS: '20000' } }
  const excluded = environment.ANALYSIS_STATUSES?.split(',')
  const isExcluded = (status: string) => (excluded ? !excluded.includes(status) : false)
  // Old analyses are read again, including silent changes; if ANALYSIS_MAX_AGE is off, this takes a `--full`.
  const agesOut = environment.ANALYSIS_MAX_AGE !== 'off'
  for (const operation of agesOut ? (['sync'] as const) : (['sync', 'restart'] as const)) {
    const report = await attempt(quiet, { operation, networkFaults: CALM, crashPoint: null, trusted: true })
    assertHolds(report?.status === 'ok', () => `without faults, the run is not ok: ${JSON.stringify(report)}`)
    const silentChangesSeen = agesOut || operation === 'restart'
    oracle.checkTruth(quiet.kept as Stored, company.world, { isExcluded, silentChangesSeen })
  }
  await checkNothingToDo(quiet)
  await checkStoredMarts(checkLatest(quiet.paths, true) as Manifest)
  await checkLook(quiet)
  await checkRebuild(quiet)
  await checkSecret(quiet)
}

async function checkNothingToDo(play: Play): Promise<void> {
  const before = await readdir(join(play.paths.lake, 'snapshots'))
  const report = await attempt(play, {
    operation: 'sync',
    networkFaults: CALM,
    crashPoint: null,
    trusted: false,
  })
  const { listed, unchanged, deferred, added, changed, tombstoned } = report as RunReport
  assertHolds(
    unchanged + deferred === listed && added + changed + tombstoned === 0,
    () => `nothing changed, but the run reports ${JSON.stringify(report)}`,
  )
  const after = await readdir(join(play.paths.lake, 'snapshots'))
  assertHolds(
    after.every(name => before.includes(name)),
    () => `nothing changed, but there is a new snapshot: ${after}`,
  )
}

/** After a run that left nothing to do, a look replaces the next one; not if there is a new notice. */
async function checkLook(play: Play): Promise<void> {
  const found = await oneLook(play, { isSteady: true })
  assertHolds(!found.isNew, () => `nothing changed, but a look does not see it: ${JSON.stringify(found)}`)
  const [id] = play.company.world.ids()
  if (!id) return
  const entry = play.company.world.update(id, { edital: { objeto: 'Outro objeto' } })
  const { isNew } = await oneLook(play, { isSteady: true })
  assertHolds(isNew, () => `a look does not see that ${entry.edital.id} changed`)
}

/** I6: a rebuild from the log gives the same warehouse. */
async function checkRebuild(play: Play): Promise<void> {
  const { paths } = play
  const undisturbed = await setWarehouseAside(paths)
  const context = contextOf(play, play.environment, new AbortController().signal)
  const { db } = await rebuildWarehouse(openOptions(context))
  db.close()
  await checkSameTables(undisturbed, paths.warehouse)
  const directory = paths.raw
  const runs = new Set<string>()
  for (const number of await sealedSegments(directory))
    for await (const line of readLines(segmentPath(directory, number)))
      runs.add((JSON.parse(line) as { run_id: string }).run_id)
  const stored = await countRuns(paths.warehouse)
  assertHolds(stored === runs.size, () => `the log has ${runs.size} runs, sync_runs has ${stored}`)
}

/** I7: the key is in no file. */
async function checkSecret({ paths }: Play): Promise<void> {
  for (const entry of await readdir(paths.root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const texts = [await readFile(path, 'latin1')]
    if (path.endsWith('.zst')) for await (const line of readLines(path)) texts.push(line)
    for (const key of [KEY, OTHER_KEY])
      assertHolds(!texts.some(text => text.includes(key)), () => `I7: a key is in ${path}`)
  }
}
