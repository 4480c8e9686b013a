import type { Extra } from '#src/extras/extra.ts'
import { LogInStore } from './log.ts'
import { reachLog } from './owner.ts'
import { openStored } from './segments.ts'

/**
 * A raw log that several hosts share, in an object store (LOG_URL): a segment counts once it is there, and a host without a
 * disk is restored from a checkpoint. It writes the store, and brings to the disk what other hosts sealed.
 */
export const sharedLog: Extra = {
  hosts: { open: (settings, paths, signal) => new LogInStore(settings, paths, signal), openStored, reachLog },
  check: async options => await (await import('./check.ts')).checkSharedLog(options),
  commands: {
    log: async (environment, tools) => (await import('./command.ts')).createLogCommand(environment, tools),
  },
}
