import { randomUUID } from 'node:crypto'
import type { CatalogSettings } from '#config/iceberg_catalog.ts'
import type { RemoteLakeSettings } from '#config/remote_lake.ts'
import type { CompanyPaths } from '#src/store/company.ts'
import { requireLatest } from '#src/store/lake/latest.ts'
import { latestName } from '#src/store/lake/manifest.ts'
import { type ObjectStore, RemoteError, type WriteCondition } from '#src/store/remote/objects.ts'
import { type Finding, ok, problem, warning } from './finding.ts'

const CHECK = 'store'
/** Some stores accept two of racing writes now and then. */
const RACERS = 16
const ROUNDS = 3
/** A UUID, and room for a store that answers with something else. */
const RACE_BYTES = 1024

type StoreOptions = {
  readonly paths: CompanyPaths
  readonly remoteLake: RemoteLakeSettings | null
  readonly quick: boolean
  /** Aborted when the process is to end. */
  readonly signal: AbortSignal
}

/** Checks whether the object store has what the local lake has, and keeps the one promise that a publish relies on. */
export async function checkObjectStore({
  paths,
  remoteLake,
  quick,
  signal,
}: StoreOptions): Promise<Finding[]> {
  if (remoteLake === null) return []
  const { withS3 } = await import('#src/operate/remote_lake.ts')
  return await withS3(remoteLake, signal, async store => [
    await checkLatest(store, paths),
    ...(remoteLake.catalog ? [await checkCatalog(remoteLake.catalog, store)] : []),
    ...(quick ? [] : [await checkRace(store, paths.company)]),
  ]).catch(error => {
    if (!(error instanceof RemoteError)) throw error
    const what = `cannot be checked: ${error.message.replace(/\.$/, '')}`
    return [problem(CHECK, 'The object store', what, 'See LAKE_URL, and the S3_ and ICEBERG_ settings')]
  })
}

async function checkLatest(store: ObjectStore, { company, lake }: CompanyPaths): Promise<Finding> {
  const { readRemoteLatest } = await import('#src/store/remote/latest.ts')
  const there = (await readRemoteLatest(store, company))?.latest ?? null
  const here = await latestName(lake)
  const { hasContent, IF_RIGHT, whyPublishRefused } = await import('#src/store/remote/lag.ts')
  const manifest = here === null ? null : await requireLatest(lake)
  if (there?.pending === null && (manifest === null ? there.snapshot === null : hasContent(there, manifest)))
    return ok(CHECK, store.root, `The object store has the snapshot ${there.snapshot}`)
  const refusal = manifest && whyPublishRefused(there, manifest)
  if (refusal !== null)
    return problem(
      CHECK,
      store.root,
      `refuses each publish: ${refusal.replace(/\.$/, '')}`,
      IF_RIGHT(company),
    )
  const has = there?.pending
    ? `has a publish of ${there.pending.snapshot} that is not finished`
    : `has ${there?.snapshot ?? 'no snapshot'}; the local lake has ${here ?? 'none'}`
  return warning(CHECK, store.root, has, 'The next run brings it there, or `npm run lake -- publish`')
}

/** Returns whether the catalog answers, lets us in, and has the company's tables. */
async function checkCatalog(settings: CatalogSettings, { patience }: ObjectStore): Promise<Finding> {
  const { openRestCatalog } = await import('#src/store/remote/iceberg/rest_catalog.ts')
  const catalog = await openRestCatalog(settings, patience)
  try {
    const has = (await catalog.load('editais')) !== null
    const what = `has the tables of ${settings.namespace.join('.')}`
    if (has) return ok(CHECK, catalog.name, `${catalog.name} ${what}`)
    return warning(
      CHECK,
      catalog.name,
      `${what.replace('has', 'has not yet')}`,
      'Run `npm run lake -- publish`',
    )
  } finally {
    catalog.close()
  }
}

/**
 * Creates an object many times at once, and replaces one version of it many times at once: a store that lets two win would
 * let two workers overwrite each other.
 */
export async function checkRace(store: ObjectStore, company: string): Promise<Finding> {
  const keys = Array.from({ length: ROUNDS }, () => `${company}/lake/.doctor-${randomUUID()}`)
  try {
    for (const key of keys) {
      const created = await race(store, key, { absent: true })
      // An answer that was lost is no second winner.
      if (created > 1)
        return unsafe(store, `${created} of ${RACERS} racing writers create one object`, 'If-None-Match')
      const found = await store.get(key, RACE_BYTES)
      if (found === null) continue
      const replaced = await race(store, key, { tag: found.tag })
      if (replaced > 1)
        return unsafe(
          store,
          `${replaced} of ${RACERS} racing writers replace one version of an object`,
          'If-Match',
        )
      if (replaced === 0 && (await store.get(key, RACE_BYTES))?.bytes.equals(found.bytes))
        return problem(
          CHECK,
          store.root,
          'let nobody replace an object by the ETag that it gave: no worker could run',
          'Use a store with conditional writes (If-Match with PUT), without a gateway that changes ETags',
        )
    }
    return ok(
      CHECK,
      store.root,
      `Of ${RACERS} racing writers, the object store lets one create an object, and one replace it`,
    )
  } finally {
    await store.remove(keys)
  }
}

/** Writes the same object several times at once. @returns how many of the writers won. */
async function race(store: ObjectStore, key: string, condition: WriteCondition): Promise<number> {
  const writes = Array.from({ length: RACERS }, () => store.put(key, Buffer.from(randomUUID()), condition))
  return (await Promise.all(writes)).filter(tag => tag !== null).length
}

function unsafe(store: ObjectStore, what: string, header: string): Finding {
  return problem(
    CHECK,
    store.root,
    `let ${what}: workers could overwrite each other`,
    `Use a store with conditional writes (${header} with PUT)`,
  )
}
