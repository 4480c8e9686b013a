import { exports } from './extras/exports/exports.ts'
import type { Extra, HostsExtra, ReportExtra } from './extras/extra.ts'
import { metabase } from './extras/metabase/metabase.ts'
import { objectStore } from './extras/object_store/object_store.ts'
import { report } from './extras/report/report.ts'
import { sharedLog } from './extras/shared_log/shared_log.ts'
import { traces } from './extras/traces/traces.ts'
import { EXIT, FatalError } from './lib/errors.ts'

/**
 * What the product has besides its core. Each can be taken away: without its folder and its two lines here, the program
 * compiles, and the core works as before.
 */
export const EXTRAS: readonly Extra[] = [report, exports, metabase, sharedLog, objectStore, traces]

/** Returns what brings a log that hosts share. @throws FatalError (usage) if this program was made without it. */
export function getHosts(): HostsExtra {
  for (const { hosts } of EXTRAS) if (hosts) return hosts
  throw new FatalError(
    'LOG_URL is set, but this program was made without a log that hosts share.',
    EXIT.usage,
  )
}

/** Returns what shows the latest snapshot to people. @throws FatalError (usage) if this program was made without it. */
export function reportForPeople(): ReportExtra {
  for (const { report } of EXTRAS) if (report) return report
  throw new FatalError('This program was made without the report.', EXIT.usage)
}
