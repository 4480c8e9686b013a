import type { MetabaseTarget } from '#config/settings.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { Follower } from '#src/core/pipeline/run.ts'
import { forgetMetabase, readMetabaseState, snapshotsOf } from './state.ts'

/** Creates the follower that points Metabase to a company's lake; without a target, it deletes the state of an earlier one. */
export function metabaseFollower(
  target: MetabaseTarget | null,
  { company, lake, metabase: path }: Pick<CompanyPaths, 'company' | 'lake' | 'metabase'>,
): Follower {
  return {
    inUse: async () => snapshotsOf(await readMetabaseState(path)),
    async follow({ manifest }, { now, signal }) {
      if (!target) return await forgetMetabase(path)
      // Loaded only if there is a target, because it loads an HTTP client.
      const { followSnapshot } = await import('./follow.ts')
      await followSnapshot({ target, owner: { company, lake }, path, manifest, now: now(), signal })
    },
  }
}
