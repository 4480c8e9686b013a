import type { Settings } from '#config/settings.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { Follower } from '#src/core/pipeline/run.ts'
import { EXTRAS } from '#src/extras.ts'

/** Returns the readers of a company's snapshots as one, as far as they are configured. */
export function followers(settings: Settings, paths: CompanyPaths): Follower {
  const all = EXTRAS.flatMap(({ follower }) => (follower ? [follower(settings, paths)] : []))
  return {
    inUse: async () => (await Promise.all(all.map(one => one.inUse()))).flat(),
    isBehind: async () => (await Promise.all(all.map(one => one.isBehind()))).includes(true),
    async follow(snapshot, run) {
      for (const one of all) await one.follow(snapshot, run)
    },
  }
}
