import type { S3Settings } from '#config/s3.ts'
import { counted } from '#src/platform/count.ts'
import type { CompanyPaths } from '#src/store/company.ts'
import { type ObjectStore, RemoteError } from '#src/store/remote/objects.ts'
import { type Finding, ok, problem, warning } from './finding.ts'
import { checkRace } from './object_store.ts'

const CHECK = 'shared log'

export type SharedLogOptions = {
  readonly paths: CompanyPaths
  readonly remoteLog: S3Settings | null
  readonly quick: boolean
}

/**
 * Whether the log in the object store has no gap and begins as the one on this disk, its checkpoints are whole, and the
 * store keeps the one promise that hosts rely on.
 */
export async function checkSharedLog({ paths, remoteLog, quick }: SharedLogOptions): Promise<Finding[]> {
  if (remoteLog === null) return []
  const { openS3 } = await import('#src/store/remote/s3.ts')
  try {
    const store = await openS3(remoteLog)
    try {
      return [
        await checkSegments(store, paths),
        ...(await checkCheckpoints(store, paths.company)),
        ...(quick ? [] : [await checkRace(store, paths.company)]),
      ]
    } finally {
      store.close()
    }
  } catch (error) {
    if (!(error instanceof RemoteError)) throw error
    const what = `cannot be checked: ${error.message.replace(/\.$/, '')}`
    return [problem(CHECK, 'The object store', what, 'See LOG_URL, and the S3_ settings')]
  }
}

async function checkSegments(store: ObjectStore, paths: CompanyPaths): Promise<Finding> {
  const { compareSegments, placeOf, UnusableLog } = await import('#src/store/shared_log/segments.ts')
  const place = placeOf({ store, paths })
  try {
    const segments = await compareSegments({ store, paths })
    return ok(CHECK, place, `${counted(segments, 'segment')} without a gap, equal to those on this disk`)
  } catch (error) {
    if (error instanceof UnusableLog) return problem(CHECK, place, error.what, error.mend)
    throw error
  }
}

async function checkCheckpoints(store: ObjectStore, company: string): Promise<Finding[]> {
  const { listCheckpoints, missingFiles } = await import('#src/store/shared_log/checkpoints.ts')
  const names = await listCheckpoints(store, company)
  const findings: Finding[] = []
  for (const { key, segment } of names) {
    const missing = await missingFiles(store, company, key)
    if (missing === 0) continue
    const why = missing === null ? 'cannot be read' : `lacks ${counted(missing, 'file')}`
    findings.push(
      warning(
        CHECK,
        `${store.root}/${key}`,
        `${why}: a restore uses another one than that of segment ${segment}`,
      ),
    )
  }
  if (findings.length > 0) return findings
  const newest = names[0] ? `; the newest has ${counted(names[0].segment, 'segment')}` : ''
  return [ok(CHECK, store.root, `${counted(names.length, 'checkpoint')}${newest}`)]
}
