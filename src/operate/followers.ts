import type { RemoteLakeSettings } from '#config/remote_lake.ts'
import type { Settings } from '#config/settings.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { Follower } from '#src/core/pipeline/run.ts'
import { metabaseFollower } from '#src/extras/metabase/follower.ts'
import { forgetRemote, readRemotely } from '#src/extras/object_store/state.ts'

/** Returns the readers of a company's snapshots as one: Metabase and the object store, as far as they are configured. */
export function followers(
  { metabase, remoteLake }: Pick<Settings, 'metabase' | 'remoteLake'>,
  paths: CompanyPaths,
): Follower {
  const all = [metabaseFollower(metabase, paths), remoteFollower(remoteLake, paths)]
  return {
    inUse: async () => (await Promise.all(all.map(one => one.inUse()))).flat(),
    async follow(snapshot, run) {
      for (const one of all) await one.follow(snapshot, run)
    },
  }
}

/**
 * Returns the lake in an object store, which gets a snapshot after the run (`src/operate/publish_remote.ts`). Without one, what
 * is left of an earlier one is deleted.
 */
function remoteFollower(settings: RemoteLakeSettings | null, paths: CompanyPaths): Follower {
  return {
    inUse: async () => await readRemotely(paths.remote),
    async follow() {
      if (settings === null) await forgetRemote(paths)
    },
  }
}
