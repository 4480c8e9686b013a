import type { Settings } from '#config/settings.ts'
import type { Api } from '#src/core/api/client.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { KnownState } from '#src/core/company/state.ts'
import {
  explainDue,
  explainOutdated,
  findUsableIndex,
  isStillThere,
  KnownList,
  type ListIndex,
  makeShownPage,
  pageHash,
  type ShownPage,
  type UsableIndex,
} from '#src/core/pipeline/list_index.ts'
import { type ReadPage, scan } from '#src/core/pipeline/scan.ts'
import { validatePage } from '#src/core/pipeline/validate.ts'
import type { Drift } from '#src/core/rawlog/line.ts'
import { FatalError, RequestError } from '#src/lib/errors.ts'

type LookContext = {
  readonly paths: CompanyPaths
  readonly settings: Settings
  readonly now: () => Date
  /** For this long after a run, looks may replace the next runs. */
  readonly maxAgeMs: number
  /** Called only if a look is worth a request; null while another process holds the company. */
  readonly openApi: () => Promise<LookApi | null>
  /**
   * Whether the log that hosts share has more than this segment, or is no longer the one on this disk; absent if the log is on
   * this disk alone.
   */
  readonly isOther?: (segment: number) => Promise<boolean>
  readonly signal: AbortSignal
}

export type LookApi = Pick<Api, 'list' | 'concurrency' | 'close'>

/** The result of a look: nothing new since the run that left this state, or why a run must start. */
export type Look =
  | { readonly isNew: false; readonly state: KnownState; readonly index: ListIndex }
  | { readonly isNew: true; readonly why: string; readonly hasAsked: boolean }

/** The list shows what only a run can judge. */
class Doubt extends Error {
  override readonly name = 'Doubt'
}

/**
 * Returns whether a run would find anything to do: reads the list, and compares it with what the last run saw. Takes no lock,
 * opens no database, writes nothing, and decides nothing about what is new.
 * @throws InterruptedError if the signal is aborted.
 */
export async function look(context: LookContext): Promise<Look> {
  const { now, maxAgeMs } = context
  const notAsked = (why: string): Look => ({ isNew: true, why, hasAsked: false })
  const usable = await findUsableIndex(context, now())
  if (typeof usable === 'string') return notAsked(usable)
  const { index, state } = usable
  if (now().getTime() >= Date.parse(index.made_at) + maxAgeMs) return notAsked('the last run is old')
  const due = explainDue(index, now())
  if (due !== null) return notAsked(due)
  const why = (await whatIsNew(context, index)) ?? (await whyReplaced(context, usable))
  return why === null ? { isNew: false, state, index } : { isNew: true, why, hasAsked: true }
}

/**
 * Returns why this look counts no more, or null: a manual run may have begun or ended while the list was read, and another host
 * may have run at any time.
 */
async function whyReplaced(context: LookContext, { index, sum }: UsableIndex): Promise<string | null> {
  if (!(await isStillThere(context.paths, sum))) return 'another run ended meanwhile'
  if (await context.isOther?.(index.place.segments)) return 'another host wrote to the log'
  return (await explainOutdated(index, context, context.now())) ?? explainDue(index, context.now())
}

async function whatIsNew({ openApi, signal }: LookContext, index: ListIndex): Promise<string | null> {
  let api: LookApi | null = null
  try {
    api = await openApi()
    if (api === null) return 'another process holds the company'
    return await compareList(api, index, signal)
  } catch (error) {
    // A failing API or a refused key is for the run to report.
    const isOfApi = error instanceof RequestError || (error instanceof FatalError && !signal.aborted)
    if (error instanceof Doubt || isOfApi) return error.message
    throw error
  } finally {
    await api?.close()
  }
}

/** Reads the list by the rules of a run's scan. */
async function compareList(api: LookApi, index: ListIndex, signal: AbortSignal): Promise<string | null> {
  const known = new KnownList(index)
  const seen: Seen = { pages: new Set(), keys: new Set() }
  const { complete } = await scan({
    api,
    statuses: null,
    readPage: readKnown(known, seen),
    // The list is changing: the run reads it as often as it takes.
    maxPasses: 1,
    signal,
    onProgress: () => {},
  })
  if (!complete) return 'the list changed while it was read'
  return isAllShown(known, seen) ? null : 'the list no longer shows a notice'
}

type Seen = {
  /** The known pages that were shown again. */
  readonly pages: Set<ShownPage>
  /** The keys that other pages showed. */
  readonly keys: Set<string>
}

function readKnown(known: KnownList, seen: Seen): ReadPage {
  const names = new Set(known.pages.flatMap(({ drift }) => drift.map(formatDriftName)))
  return async body => {
    const hash = pageHash(body)
    const same = known.samePage(hash)
    if (same !== undefined) {
      seen.pages.add(same)
      return same
    }
    const validated = validatePage(body)
    if (typeof validated === 'string') return validated
    const page = makeShownPage(hash, validated)
    if (!page.notices.every(notice => known.has(notice))) throw new Doubt('the list shows something new')
    if (!page.drift.every(drift => names.has(formatDriftName(drift))))
      throw new Doubt('the list differs from the contract in a new way')
    for (const [key] of page.notices) seen.keys.add(key)
    return page
  }
}

function isAllShown(known: KnownList, { pages, keys }: Seen): boolean {
  if (pages.size === known.pages.length) return true
  const shown = new Set(keys)
  for (const page of pages) for (const [key] of page.notices) shown.add(key)
  return shown.size === known.notices.size
}

function formatDriftName({ kind, path }: Drift): string {
  return `${kind} ${path}`
}
