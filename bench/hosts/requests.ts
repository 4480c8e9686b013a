import type { Sandbox } from '#src/sandbox/server.ts'
import type { Living } from '../company/living.ts'

/** A request to the API, in the order of their arrival. */
export type Asked = {
  readonly kind: 'list' | 'analysis'
  readonly company: string
  /** The address of the host. */
  readonly address: string
  readonly connection: number
  readonly atMs: number
  /** The notice and the version that an analysis was requested for. */
  readonly version: string
}

/** Collects the requests for lists and analyses. */
export function collectAsked({ faults }: Sandbox, companies: readonly Living[]): readonly Asked[] {
  const asked: Asked[] = []
  const worlds = new Map(companies.map(({ slug, world }) => [slug, world]))
  faults.onRequest = ({ kind, company, id, address, connection }) => {
    if ((kind !== 'list' && kind !== 'analysis') || company === null) return
    const version = `${id} ${worlds.get(company)?.entry(id ?? '')?.edital.updated_at}`
    asked.push({ kind, company, address: address ?? '', connection, atMs: Date.now(), version })
  }
  return asked
}

/** When a host was cut off. */
export type Cut = { readonly address: string; readonly fromMs: number; readonly toMs: number }

/** How runs of one company on different hosts overlapped, as the API saw it. */
export type Overlap = {
  /** Runs that requested an analysis although another host had requested one since they read the list. */
  readonly runs: number
  /** Requests that may have been sent before their host was cut off, and arrived after it. They count for nothing. */
  readonly late: number
}

/**
 * A run reads the list, then requests analyses. If another host requests one in between, both believe to hold the
 * company. This sees runs that are killed or never end, too.
 * @param asked in the order of arrival; each host has an address of its own.
 */
export function requestOverlap(asked: readonly Asked[], cuts: readonly Cut[]): Overlap {
  const isLate = lateness(cuts)
  const onTime = asked.filter(one => !isLate(one))
  const runs = new Set<string>()
  const byCompany = Map.groupBy(onTime, ({ company }) => company)
  for (const [company, requests] of byCompany) {
    const listed = new Map<string, number>()
    const requested = new Map<string, number>()
    for (const [index, { kind, address }] of requests.entries()) {
      if (kind === 'list') {
        listed.set(address, index)
        continue
      }
      requested.set(address, index)
      const since = listed.get(address) ?? -1
      const hasOther = [...requested].some(([other, at]) => other !== address && at > since)
      if (hasOther) runs.add(`${company} ${address} ${since}`)
    }
  }
  return { runs: runs.size, late: asked.length - onTime.length }
}

/**
 * A connection carries one request at a time. So the first one that arrives after a cut, on a connection from before it,
 * may have been under way in the cut; the ones after it were sent later.
 */
function lateness(cuts: readonly Cut[]): (asked: Asked) => boolean {
  const lastMs = new Map<number, number>()
  return ({ address, connection, atMs }) => {
    const beforeMs = lastMs.get(connection)
    lastMs.set(connection, atMs)
    return (
      beforeMs !== undefined &&
      cuts.some(cut => cut.address === address && beforeMs <= cut.fromMs && atMs >= cut.toMs)
    )
  }
}
