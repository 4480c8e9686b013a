import type { CatalogSettings } from '#config/lake.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { readLatestName, requireLatest } from '#src/core/lake/manifest.ts'
import { type CheckOptions, type Finding, ok, problem, warning } from '#src/extras/extra.ts'
import { checkRace } from '#src/extras/store_race.ts'
import { closing } from '#src/lib/closing.ts'
import { type ObjectStore, RemoteError } from '#src/lib/objects/objects.ts'

const CHECK = 'store'
/** Checks whether the object store has what the local lake has, and keeps the one promise that a publish relies on. */
export async function checkObjectStore({
  paths,
  settings: { remoteLake },
  quick,
  signal,
}: CheckOptions): Promise<Finding[]> {
  if (remoteLake === null) return []
  const { withS3 } = await import('./remote_lake.ts')
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
  const { readRemoteLatest } = await import('./tables/format.ts')
  const there = (await readRemoteLatest(store, company))?.latest ?? null
  const here = await readLatestName(lake)
  const { hasContent, composeRemedy, explainPublishRefusal } = await import('./state.ts')
  const manifest = here === null ? null : await requireLatest(lake)
  if (there?.pending === null && (manifest === null ? there.snapshot === null : hasContent(there, manifest)))
    return ok(CHECK, store.root, `The object store has the snapshot ${there.snapshot}`)
  const refusal = manifest && explainPublishRefusal(there, manifest)
  if (refusal !== null)
    return problem(
      CHECK,
      store.root,
      `refuses each publish: ${refusal.replace(/\.$/, '')}`,
      composeRemedy(company),
    )
  const has = there?.pending
    ? `has a publish of ${there.pending.snapshot} that is not finished`
    : `has ${there?.snapshot ?? 'no snapshot'}; the local lake has ${here ?? 'none'}`
  return warning(CHECK, store.root, has, 'The next run brings it there, or `editais lake publish`')
}

/** Returns whether the catalog answers, lets us in, and has the company's tables. */
async function checkCatalog(settings: CatalogSettings, { patience }: ObjectStore): Promise<Finding> {
  const { openRestCatalog } = await import('./iceberg/rest_catalog.ts')
  using catalog = closing(await openRestCatalog(settings, patience))
  const has = (await catalog.load('editais')) !== null
  const what = `has the tables of ${settings.namespace.join('.')}`
  if (has) return ok(CHECK, catalog.name, `${catalog.name} ${what}`)
  return warning(CHECK, catalog.name, `${what.replace('has', 'has not yet')}`, 'Run `editais lake publish`')
}
