import type { Extra } from '#src/extras/extra.ts'
import { LogInStore } from './log.ts'

/**
 * A raw log that several hosts share, in an object store (LOG_URL): a segment counts once it is there, and a host without a
 * disk is restored from a checkpoint. It writes the store, and brings to the disk what other hosts sealed.
 */
export const sharedLog: Extra = {
  hosts: {
    open: (settings, paths, signal) => new LogInStore(settings, paths, signal),
    openStored: async (settings, company, last) =>
      await (await import('./segments.ts')).openStored(settings, company, last),
    reach: async (settings, company, signal) =>
      await (await import('./owner.ts')).reachLog(settings, company, signal),
  },
  check: async options => await (await import('./check.ts')).checkSharedLog(options),
  commands: {
    log: async (environment, tools) => (await import('./command.ts')).logCommand(environment, tools),
  },
}
