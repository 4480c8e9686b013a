import type { Settings } from '#config/settings.ts'
import type { TraceSettings } from '#config/traces.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { workUntimed } from '#src/core/pipeline/request.ts'
import type { Follower } from '#src/core/pipeline/run.ts'
import type {
  CheckOptions,
  Finding,
  PublishedElsewhere,
  Publisher,
  Publishing,
  PublishOptions,
  ReaderBehind,
  ReaderExtra,
  RunTrace,
  TraceName,
} from '#src/extras/extra.ts'
import type { Listener } from '#src/extras/hold.ts'
import { EXTRAS } from '#src/extras.ts'

/** What the extras do together: the programs call this, and do not know an extra by itself. */

/** Returns the readers of a company's snapshots as one, as far as they are configured. */
export function combineFollowers(settings: Settings, paths: CompanyPaths): Follower {
  const all = EXTRAS.flatMap(({ follower }) => (follower ? [follower(settings, paths)] : []))
  return {
    inUse: async () => (await Promise.all(all.map(one => one.inUse()))).flat(),
    isBehind: async () => (await Promise.all(all.map(one => one.isBehind()))).includes(true),
    async follow(snapshot, run) {
      for (const one of all) await one.follow(snapshot, run)
    },
  }
}

/** Returns what has the lake somewhere else; at most one. */
export function findPublisher(): Publisher | undefined {
  return EXTRAS.find(extra => extra.publisher)?.publisher
}

/**
 * Publishes the latest snapshot to the object store, after a run and without holding the company: the next run
 * may begin.
 * @returns null if nothing is due: there is no object store, or LAKE_PUBLISH_INTERVAL has not passed.
 * @throws RemoteError if the store refuses, and FatalError if another process publishes for too long. What is
 *   missing is remembered: the local lake is correct, and the next attempt publishes it.
 */
export async function publishBehind(
  context: Publishing,
  listener: Listener,
  options: PublishOptions,
): Promise<PublishedElsewhere | null> {
  return (await findPublisher()?.publish(context, listener, options)) ?? null
}

/** Returns those readers of the lake of which something is known. */
export function listReaders(): ReaderExtra[] {
  return EXTRAS.flatMap(({ reader }) => reader ?? [])
}

/** Returns since when a company's object store is behind, and why; null if it is not, or may be for a while. */
export async function storeBehind(settings: Settings, paths: CompanyPaths): Promise<ReaderBehind | null> {
  const reader = listReaders().find(({ behind }) => behind)
  const state = reader?.isConfigured(settings) ? await reader.read(paths) : null
  return (state && reader?.behind?.(state)) ?? null
}

/** Checks what the extras have of a company. */
export async function checkExtras(options: CheckOptions): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const { check } of EXTRAS) if (check) findings.push(...(await check(options)))
  return findings
}

/**
 * Takes the times of a run's stages, and sends them at its end, if a collector is configured.
 * @param about ids, such as `company` and `run_id`.
 */
export function beginTrace(
  name: TraceName,
  settings: TraceSettings | null,
  about: Readonly<Record<string, string>>,
): RunTrace {
  const traces = EXTRAS.find(extra => extra.traces)?.traces
  return settings && traces ? traces(name, settings, about) : { inStage: workUntimed, end: async () => {} }
}
