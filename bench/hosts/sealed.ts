import { readFrames } from '#src/core/rawlog/examine.ts'
import { directoryKey } from '#src/extras/shared_log/segments.ts'
import type { ObjectStore } from '#src/lib/objects/objects.ts'
import type { Environment } from '../processes/processes.ts'
import { withObjects } from '../processes/store.ts'
import type { Asked } from './requests.ts'

/** What the log has after a storm. */
export type Sealed = {
  /** Requests for an analysis that was sealed before the company's list was last read. */
  readonly repeated: number
  /** Runs that sealed a segment after another run had: killed ones and such that never ended, too. */
  readonly interleaved: number
}

export async function inspectLog(
  companies: readonly { readonly slug: string }[],
  asked: readonly Asked[],
  settings: Environment,
): Promise<Sealed> {
  return await withObjects(settings, async store => {
    const found = { repeated: 0, interleaved: 0 }
    for (const { slug } of companies) {
      const { sealedMs, runs } = await readLog(store, slug)
      found.repeated += repeated(
        asked.filter(({ company }) => company === slug),
        sealedMs,
      )
      found.interleaved += runs.length - new Set(runs).size
    }
    return found
  })
}

/** A run reads the log before the list: what was sealed then is known. */
function repeated(asked: readonly Asked[], sealedMs: ReadonlyMap<string, number>): number {
  let listedMs = 0
  let again = 0
  for (const { kind, version, atMs } of asked) {
    if (kind === 'list') listedMs = atMs
    else if ((sealedMs.get(version) ?? Number.POSITIVE_INFINITY) < listedMs) again += 1
  }
  return again
}

type Log = {
  /** When each version of an analysis was sealed first, by the store's clock. */
  readonly sealedMs: ReadonlyMap<string, number>
  /** The runs in the order of their segments. A run that is there twice had another one in between. */
  readonly runs: readonly string[]
}

async function readLog(store: ObjectStore, company: string): Promise<Log> {
  const sealedMs = new Map<string, number>()
  const runs: string[] = []
  for await (const { key, modified } of store.list(`${directoryKey(company)}/`)) {
    const found = await store.get(key, Number.POSITIVE_INFINITY)
    for await (const frame of readFrames(found?.bytes ?? Buffer.alloc(0))) {
      if ('damage' in frame) throw new Error(`${key} is damaged: ${frame.damage}`)
      for (const text of frame.text.toString('utf8').split('\n').filter(Boolean)) {
        const { type, run_id, edital_id, updated_at } = JSON.parse(text) as Record<string, string>
        if (run_id !== undefined && run_id !== runs.at(-1)) runs.push(run_id)
        const version = `${edital_id} ${updated_at}`
        if (type?.startsWith('analysis') && !sealedMs.has(version)) sealedMs.set(version, modified.getTime())
      }
    }
  }
  return { sealedMs, runs }
}
