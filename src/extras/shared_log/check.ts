import { existsSync } from 'node:fs'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { CheckOptions } from '#src/extras/extra.ts'
import { type Finding, ok, problem, warning } from '#src/extras/extra.ts'
import { checkRace } from '#src/extras/store_race.ts'
import { closing } from '#src/lib/closing.ts'
import { pluralize } from '#src/lib/count.ts'
import { ForeignObject, type ObjectStore, RemoteError } from '#src/lib/objects/objects.ts'

const CHECK = 'shared log'

type CheckpointFile = { readonly bytes: number; readonly sha256: string }

/**
 * Checks whether the log in the object store has no gap and begins as the one on this disk, its checkpoints are whole, and the
 * store keeps the one promise that hosts rely on.
 */
export async function checkSharedLog({
  paths,
  settings: { remoteLog },
  quick,
  signal,
}: CheckOptions): Promise<Finding[]> {
  if (remoteLog === null) return []
  const { openS3 } = await import('#src/lib/objects/s3.ts')
  try {
    using store = closing(await openS3(remoteLog, { signal }))
    return [
      await checkSegments(store, paths),
      ...(await checkCheckpoints(store, paths.company, quick)),
      ...(quick ? [] : [await checkRace(store, paths.company)]),
    ]
  } catch (error) {
    if (!(error instanceof RemoteError)) throw error
    const what = `cannot be checked: ${error.message.replace(/\.$/, '')}`
    return [problem(CHECK, 'The object store', what, 'See LOG_URL, and the S3_ settings')]
  }
}

async function checkSegments(store: ObjectStore, paths: CompanyPaths): Promise<Finding> {
  const { compareSegments, describePlace, listSegmentsAfter, UnusableLog } = await import('./segments.ts')
  const place = { store, paths }
  try {
    if (!existsSync(paths.raw)) {
      const { length } = await listSegmentsAfter(place, 0)
      return ok(CHECK, describePlace(place), `${pluralize(length, 'segment')} without a gap`)
    }
    const segments = await compareSegments(place)
    const what = `${pluralize(segments, 'segment')} without a gap, equal to those on this disk`
    return ok(CHECK, describePlace(place), what)
  } catch (error) {
    if (error instanceof UnusableLog) return problem(CHECK, describePlace(place), error.what, error.mend)
    throw error
  }
}

/** Checks that the files of checkpoints are there. Without `quick`, also reads them, and compares them with what was written. */
async function checkCheckpoints(store: ObjectStore, company: string, quick: boolean): Promise<Finding[]> {
  const { listCheckpoints, countMissingFiles, findUsableCheckpoint } = await import('./checkpoints.ts')
  const names = await listCheckpoints(store, company)
  const findings: Finding[] = []
  const isWhole = wholeness(store, company)
  for (const name of names) {
    const { key, segment } = name
    const missing = await countMissingFiles(store, company, name)
    const checkpoint = missing === 0 && !quick ? await findUsableCheckpoint(store, company, name) : null
    let damaged = 0
    for (const file of checkpoint ? [checkpoint.warehouse, ...checkpoint.rows] : [])
      if (!(await isWhole(file))) damaged += 1
    if (missing === 0 && damaged === 0) continue
    const files = pluralize(missing || damaged, 'file')
    const why =
      missing === null ? 'cannot be read' : missing > 0 ? `lacks ${files}` : `has ${files} with other content`
    const what = `${why}: a restore uses another one than that of segment ${segment}`
    findings.push(warning(CHECK, `${store.root}/${key}`, what))
  }
  if (findings.length > 0) return findings
  const newest = names[0] ? `; the newest has ${pluralize(names[0].segment, 'segment')}` : ''
  return [ok(CHECK, store.root, `${pluralize(names.length, 'checkpoint')}${newest}`)]
}

/** Returns whether a file of checkpoints is what was written; each is read once, because checkpoints share most of them. */
function wholeness(store: ObjectStore, company: string): (file: CheckpointFile) => Promise<boolean> {
  const known = new Map<string, boolean>()
  return async ({ bytes, sha256 }) => {
    const { fileKey } = await import('./checkpoints.ts')
    const before = known.get(sha256)
    if (before !== undefined) return before
    const found = await store.copy(fileKey(company, sha256), null, bytes).catch(error => {
      if (error instanceof ForeignObject) return null
      throw error
    })
    const isWhole = found?.bytes === bytes && found.sha256 === sha256
    known.set(sha256, isWhole)
    return isWhole
  }
}
