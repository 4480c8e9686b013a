import type { RemoteLakeSettings } from '#config/remote_lake.ts'
import type { Settings } from '#config/settings.ts'
import type { Follower } from '#src/pipeline/run.ts'
import { metabaseFollower } from '#src/present/metabase/follower.ts'
import type { CompanyPaths } from '#src/store/company.ts'
import { forgetRemote, readRemoteState } from '#src/store/remote/state.ts'

/** Who must be pointed to each new snapshot of a company: Metabase, then the object store, as far as they are configured. */
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

/** The lake in an object store as a follower of the local one; without one, the state of an earlier one is deleted. */
function remoteFollower(
  settings: RemoteLakeSettings | null,
  { lake, temporary, remote: path }: Pick<CompanyPaths, 'lake' | 'temporary' | 'remote'>,
): Follower {
  return {
    // A publish that was interrupted is finished from its files.
    async inUse() {
      const pending = (await readRemoteState(path))?.pending ?? null
      return pending === null ? [] : [pending]
    },
    async follow({ manifest }, { now }) {
      if (settings === null) return await forgetRemote(path)
      // Loaded only if there is an object store, because it loads a client.
      const { followRemote } = await import('#src/store/remote/follow.ts')
      await followRemote({ settings, lake, temporary, path, manifest, now: now() })
    },
  }
}
