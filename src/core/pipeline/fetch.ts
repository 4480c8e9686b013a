import { normalizeDateTime } from '#schema/times.ts'
import type { Api } from '#src/core/api/client.ts'
import { takeExcerpt } from '#src/core/rawlog/line.ts'
import { runConcurrently } from '#src/lib/concurrency.ts'
import {
  EXIT,
  ExcludedError,
  FatalError,
  getMessage,
  InterruptedError,
  RequestError,
} from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { Work } from './detect.ts'
import type { Loader } from './load.ts'
import { type Rejected, validateAnalysis } from './validate.ts'

/** This many failures in a row mean that the API is failing, not single notices: stop fetching. */
const CIRCUIT_FAILURES = 20

/** How many analyses had each outcome. */
export type Fetched = {
  loaded: number
  gone: number
  quarantined: number
  failed: number
  /** The API does not offer them. */
  excluded: number
  silentChanges: number
  /** Why fetching ended early; null if everything was attempted. */
  stopped: FatalError | null
  /** Reason for the last failure, for the user. */
  lastFailure: string | null
  lastExcluded: string | null
}

/** Returns how many analyses have an outcome. */
export function countAttempted({ loaded, gone, quarantined, failed, excluded }: Fetched): number {
  return loaded + gone + quarantined + failed + excluded
}

type FetchOptions = {
  readonly api: Pick<Api, 'analysis' | 'notice' | 'concurrency'>
  readonly work: AsyncIterator<Work>
  readonly loader: Pick<Loader, 'append'>
  readonly signal: AbortSignal
  /** Called with the number of analyses attempted so far. */
  readonly onProgress: (done: number) => void
}

/**
 * Fetches, validates and logs the analyses in `work`, many at a time. Ends early if the key is refused, the
 * circuit opens or the signal is aborted; what was logged until then is kept.
 * @throws only for faults other than the API's: the disk, or a bug.
 */
export async function fetchAnalyses(options: FetchOptions): Promise<Fetched> {
  const { api, work, signal } = options
  const fetched: Fetched = {
    loaded: 0,
    gone: 0,
    quarantined: 0,
    failed: 0,
    excluded: 0,
    silentChanges: 0,
    stopped: null,
    lastFailure: null,
    lastExcluded: null,
  }
  let failuresInARow = 0

  async function attempt(next: Work): Promise<void> {
    try {
      await fetchOne(options, next, fetched)
      failuresInARow = 0
    } catch (error) {
      if (error instanceof FatalError) {
        fetched.stopped ??= error
        return
      }
      if (error instanceof ExcludedError) {
        fetched.excluded += 1
        fetched.lastExcluded = `${next.edital_id}: ${getMessage(error)}`
        failuresInARow = 0
        return
      }
      if (!(error instanceof RequestError)) throw error
      fetched.failed += 1
      fetched.lastFailure = `${next.edital_id}: ${getMessage(error)}`
      // An API that rejects one notice is healthy. Only transient failures count towards the circuit.
      failuresInARow = error.transient ? failuresInARow + 1 : 0
      if (failuresInARow >= CIRCUIT_FAILURES) fetched.stopped ??= circuitOpened(error)
    }
  }

  async function worker(failed: () => boolean): Promise<void> {
    while (!fetched.stopped && !failed()) {
      if (signal.aborted) {
        fetched.stopped ??= new InterruptedError()
        return
      }
      const next = await work.next()
      if (next.done) return
      await attempt(next.value)
      options.onProgress(countAttempted(fetched))
    }
  }
  // While one worker handles an answer, another's request takes the freed connection. With a concurrency of
  // one there is only one worker.
  await runConcurrently(api.concurrency * 2 - 1, worker)
  await work.return?.()
  return fetched
}

/** Adds exactly one outcome to `fetched`, or throws. */
async function fetchOne({ api, loader }: FetchOptions, work: Work, fetched: Fetched): Promise<void> {
  const { edital_id, updated_at } = work
  const answer = await api.analysis(edital_id)
  if (answer.kind === 'absent') {
    await confirmGone(api, edital_id)
    fetched.gone += 1
    return
  }
  const verdict =
    answer.kind === 'body' ? validateAnalysis(answer.bytes, edital_id) : tooLarge(edital_id, answer.excerpt)
  if (!verdict.ok) {
    await loader.append(rejectedLine(verdict, updated_at))
    fetched.quarantined += 1
    return
  }
  const document = verdict.bytes ?? verdict.document
  const hash = hashContent(document)
  const about = { edital_id, updated_at, source_updated_at: normalizeDateTime(updated_at), hash }
  if (hash === work.hash) {
    await loader.append({ type: 'analysis_same', ...about })
  } else {
    const { drift, raw } = verdict
    const line = {
      ...about,
      ...(drift.length > 0 ? { drift } : {}),
      ...(raw ? { raw: raw.toString('base64') } : {}),
    }
    await loader.append({ type: 'analysis', ...line }, { analysis: document })
    if (work.hash !== null && work.same_version) fetched.silentChanges += 1
  }
  fetched.loaded += 1
}

/**
 * Throws RequestError if the API still has the notice: a notice without its analysis is a fault of the API. The notice is gone
 * only if both are absent.
 */
async function confirmGone(api: Pick<Api, 'notice'>, id: string): Promise<void> {
  const answer = await api.notice(id)
  if (answer.kind !== 'absent')
    throw new RequestError('the API has the notice but answers 404 for its analysis')
}

function tooLarge(id: string, excerpt: Buffer): Rejected {
  return { ok: false, editalId: id, reason: 'the body is too large', path: '$', raw: excerpt }
}

function rejectedLine({ editalId, reason, path, raw }: Rejected, updatedAt: string) {
  return {
    type: 'rejected' as const,
    edital_id: editalId,
    kind: 'analysis' as const,
    reason,
    path,
    updated_at: normalizeDateTime(updatedAt),
    hash: hashContent(raw),
    raw: raw.toString('base64'),
    excerpt: takeExcerpt(raw),
  }
}

function circuitOpened(error: Error): FatalError {
  return new FatalError(
    `${CIRCUIT_FAILURES} requests failed in a row. Last failure: ${getMessage(error)}. Loaded data is kept; the next run continues from there.`,
    EXIT.partial,
  )
}
