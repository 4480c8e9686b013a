import type { Extra } from '#src/extras/extra.ts'
import { holdStore } from '#src/extras/hold.ts'
import { forgetRemote, isRemoteBehind, type RemoteState, readRemotely, readRemoteState } from './state.ts'

/**
 * The lake in an object store (LAKE_URL), as Iceberg or Delta tables. It gets a snapshot after the run, and never holds it up:
 * it reads the local lake, keeps what it is reading, and writes the store, `remote.json` and `remote_marts/` alone.
 */
export const objectStore: Extra = {
  // Without a store, what is left of an earlier one is deleted.
  follower: ({ remoteLake }, paths) => ({
    inUse: async () => await readRemotely(paths.remote),
    isBehind: async () => false,
    async follow() {
      if (remoteLake === null) await forgetRemote(paths)
    },
  }),
  publisher: {
    isDue: async ({ remoteLake }, paths, now) => await isRemoteBehind(remoteLake, paths, now),
    async publish(context, listener, { silenceMs, ...holding }) {
      const { paths, settings, now, signal } = context
      const { remoteLake } = settings
      if (remoteLake === null || !(await isRemoteBehind(remoteLake, paths, now()))) return null
      return await holdStore(context, listener, holding, async () => {
        // The previous holder may have done it.
        if (!(await isRemoteBehind(remoteLake, paths, now()))) return null
        // Loaded only if there is an object store, because it loads a client.
        const { publishLatest } = await import('./remote_lake.ts')
        const patience = silenceMs ? { silenceMs } : {}
        return await context.inStage('upload', () =>
          publishLatest({ settings: remoteLake, paths, now, signal, ...patience }),
        )
      })
    },
    async vacuum(context, holding) {
      const { paths, settings, now, signal } = context
      const { remoteLake } = settings
      const { company } = paths
      if (remoteLake === null) return null
      const { vacuumRemote } = await import('./vacuum.ts')
      const { withTables } = await import('./remote_lake.ts')
      const { keepMs } = remoteLake
      return await holdStore(context, { progress: () => {}, note: () => {} }, holding, () =>
        withTables(remoteLake, { company, signal }, ({ store, formats }) =>
          vacuumRemote(store, { company, formats, keepMs, now: now() }),
        ),
      )
    },
  },
  reader: {
    key: 'remote',
    isConfigured: settings => settings.remoteLake !== null,
    read: async paths => await readRemoteState(paths.remote),
    describe({ error, snapshot, reading, tried_at, due_at }: RemoteState, directory) {
      const isThere = snapshot !== null && directory.endsWith(snapshot)
      const isPast = due_at === null || Date.parse(due_at) <= Date.now()
      return [
        `Store     has ${(isThere ? 'this snapshot' : snapshot) ?? 'nothing yet'}`,
        ...(isThere || isPast ? [] : [`          gets this one after ${due_at} (LAKE_PUBLISH_INTERVAL)`]),
        ...(reading ? [`          gets ${reading} since ${tried_at}`] : []),
        ...(error ? [`          last attempt ${tried_at}: ${error}`] : []),
      ]
    },
    gauges: [
      {
        name: 'editais_object_store_current',
        help: '1 if the object store has the latest snapshot, 0 if the last attempt to bring it there failed; absent without LAKE_URL.',
        value: ({ error }: RemoteState) => (error === null ? 1 : 0),
      },
      {
        name: 'editais_object_store_last_success_timestamp_seconds',
        help: 'When the object store last got a snapshot; absent without LAKE_URL, and before the first.',
        value: ({ published_at }: RemoteState) =>
          published_at === null ? null : Date.parse(published_at) / 1000,
      },
    ],
    behind: ({ error, behind_since: since, tried_at: triedAt }: RemoteState) =>
      error === null || since === null ? null : { since, triedAt, error },
  },
  check: async options => await (await import('./check.ts')).checkObjectStore(options),
  commands: {
    lake: async (environment, tools) => (await import('./command.ts')).createLakeCommand(environment, tools),
  },
}
