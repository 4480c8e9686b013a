import type { Extra } from '#src/extras/extra.ts'
import { forgetMetabase, listSnapshotsInUse, type MetabaseState, readMetabaseState } from './follow.ts'

/**
 * A Metabase whose database is the lake: `metabase` sets it up, and each new snapshot is shown there. It reads the lake,
 * keeps what Metabase may read, and writes `metabase.json` alone.
 */
export const metabase: Extra = {
  // Without a target, the state of an earlier one is deleted.
  follower: ({ metabase: target }, { company, metabase: path }) => ({
    inUse: async () => listSnapshotsInUse(await readMetabaseState(path)),
    isBehind: async () => target !== null && (await readMetabaseState(path))?.error !== null,
    async follow({ manifest }, { now, signal }) {
      if (!target) return await forgetMetabase(path)
      // Loaded only if there is a target, because it loads an HTTP client.
      const { followSnapshot } = await import('./follow.ts')
      await followSnapshot({ target, company, path, manifest, now: now(), signal })
    },
  }),
  reader: {
    key: 'metabase',
    isConfigured: settings => settings.metabase !== null,
    read: async paths => await readMetabaseState(paths.metabase),
    describe({ error, reads, tried_at }: MetabaseState, directory) {
      const what = reads.every(catalog => catalog.startsWith(directory))
        ? 'this snapshot'
        : reads.join(' or ')
      return [
        `Metabase  reads ${reads.length > 0 ? what : 'an unknown catalog'}`,
        ...(error ? [`          last attempt ${tried_at}: ${error}`] : []),
      ]
    },
    gauges: [
      {
        name: 'editais_metabase_current',
        help: '1 if Metabase reads the latest snapshot, 0 if the last attempt to point it there failed; absent without Metabase.',
        value: ({ error }: MetabaseState) => (error === null ? 1 : 0),
      },
    ],
  },
  commands: {
    metabase: async environment => (await import('./command.ts')).createMetabaseCommand(environment),
  },
}
