import type { Sandbox } from '#src/sandbox/server.ts'
import type { ChangingCompany } from './companies.ts'

/** A request to the API, in the order of their arrival. */
export type Asked = {
  readonly kind: 'list' | 'analysis'
  readonly company: string
  /** The address of the host. */
  readonly address: string
  readonly connection: number
  readonly atMs: number
  /** What an analysis was requested for: the notice and its version. */
  readonly version: string
}

/** Collects the requests for lists and analyses. */
export function collectAsked({ faults }: Sandbox, companies: readonly ChangingCompany[]): readonly Asked[] {
  const asked: Asked[] = []
  const worlds = new Map(companies.map(({ slug, world }) => [slug, world]))
  faults.onRequest = ({ kind, company, id, address, connection }) => {
    if ((kind !== 'list' && kind !== 'analysis') || company === null) return
    const version = `${id} ${worlds.get(company)?.entry(id ?? '')?.edital.updated_at}`
    asked.push({ kind, company, address: address ?? '', connection, atMs: Date.now(), version })
  }
  return asked
}
