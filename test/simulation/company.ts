import type { Random } from '#src/sandbox/random.ts'
import { type Entry, ORDERS, World } from '#src/sandbox/world.ts'
import type { NoticeFilter, NoticeSource } from '#src/server/contract/source.ts'
import { noticeEntry } from '#test/support/notices.ts'
import { alterAnalysis, alterNotice } from './alter.ts'

const STATUSES = ['screening', 'analysis', 'pricing', 'ready', 'discarded', 'expired'] as const
const LEVELS = ['none', 'simple', 'medium', 'deep'] as const
const HOUR_MS = 3_600_000

/** A document that the API sent, and when: `seq` counts everything that the API answered. */
export type Shown = {
  readonly seq: number
  /** As it must be read; null if it can only be quarantined. */
  readonly entry: Entry | null
}

/** What the API answered, for the oracle. */
export type Ledger = {
  seq: number
  /** Ids for which `GET /editais/{id}` answered 404 since the last checked state. */
  readonly absent: Set<string>
  /** Cleared at the start of each run. */
  readonly ofRun: {
    readonly notices: Map<string, Shown[]>
    /** Ids on a page of the list. */
    readonly listed: Set<string>
    /** Ids with an unusable document. */
    readonly unusable: Set<string>
    /** The `seq` at the start of the run. */
    since: number
  }
  readonly notices: Map<string, Shown[]>
  readonly analyses: Map<string, Shown[]>
  /** Counts of changes by kind, for the summary. */
  readonly counts: Map<string, number>
}

export function newLedger(): Ledger {
  return {
    seq: 0,
    absent: new Set(),
    ofRun: { notices: new Map(), listed: new Set(), unusable: new Set(), since: 0 },
    notices: new Map(),
    analyses: new Map(),
    counts: new Map(),
  }
}

/** @param settled no run died or failed since the last checked state. */
export function beginRun({ ofRun, absent, seq }: Ledger, settled: boolean): void {
  if (settled) absent.clear()
  ofRun.notices.clear()
  ofRun.listed.clear()
  ofRun.unusable.clear()
  ofRun.since = seq
}

/** A company that changes while it is read, can send broken documents, and records everything that it sends. */
export class SimulatedCompany implements NoticeSource {
  readonly world: World
  readonly ledger = newLedger()
  /** Share of the documents that are sent broken. */
  alterations = 0
  /** Average number of changes before an answer. */
  changesPerAnswer = 0
  readonly #random: Random
  readonly #now: () => Date
  readonly #prefix: string
  #made = 0
  #versions = 0

  constructor(options: { random: Random; now: () => Date; notices: number; prefix: string }) {
    this.#random = options.random
    this.#now = options.now
    this.#prefix = options.prefix
    this.world = new World([], options.random.pick(ORDERS))
    for (let n = 0; n < options.notices; n += 1) this.#arrive()
  }

  /** One change of the company, chosen at random. */
  change(): void {
    const changes: (readonly [() => void, number])[] = [
      [() => this.#arrive(), 4],
      [() => this.#update(), 6],
      [() => this.#deepen(), 4],
      [() => this.#changeSilently(), 2],
      [() => this.#remove(), 2],
      [() => this.#restore(), 2],
      [() => this.world.setOrder(this.#random.pick(ORDERS)), 0.3],
    ]
    this.#random.weighted(changes)()
  }

  async list(filter: NoticeFilter) {
    this.#live()
    const { editais, total } = await this.world.list(filter)
    const shown: unknown[] = []
    for (const edital of editais) {
      // Leaves out a notice that exists.
      if (this.#random.chance(this.alterations / 2)) continue
      const { id } = edital as Entry['edital']
      this.ledger.ofRun.listed.add(id)
      shown.push(this.#showNotice(id))
    }
    // Sends a notice twice.
    if (shown.length > 1 && this.#random.chance(this.alterations)) shown.push(shown[0])
    return { editais: shown, total }
  }

  async get(id: string) {
    this.#live()
    if (this.world.entry(id)) return this.#showNotice(id)
    this.ledger.absent.add(id)
    return null
  }

  async analysis(id: string) {
    this.#live()
    const entry = this.world.entry(id)
    if (!entry?.analysis) return null
    const { sent, read } = alterAnalysis(entry.analysis, this.#random, this.alterations)
    this.#note(this.ledger.analyses, id, read && { ...entry, analysis: read })
    return sent
  }

  #showNotice(id: string): unknown {
    const entry = this.world.entry(id) as Entry
    const { sent, read } = alterNotice(entry.edital, this.#random, this.alterations)
    this.#note(this.ledger.notices, id, read && { ...entry, edital: read })
    this.#note(this.ledger.ofRun.notices, id, read && { ...entry, edital: read })
    if (!read) this.ledger.ofRun.unusable.add(id)
    return sent
  }

  #note(where: Map<string, Shown[]>, id: string, entry: Entry | null): void {
    this.ledger.seq += 1
    const shown = where.get(id) ?? []
    shown.push({ seq: this.ledger.seq, entry })
    where.set(id, shown)
  }

  #live(): void {
    this.ledger.seq += 1
    let left = this.changesPerAnswer
    for (; left > 0 && this.#random.chance(Math.min(1, left)); left -= 1) this.change()
  }

  #arrive(): void {
    this.#made += 1
    const at = this.#time()
    const month = this.#random.int(0, 2)
    const created = new Date(Date.UTC(2026, 8 + month, 1 + this.#random.int(0, 2), this.#random.int(0, 3)))
    const entry = noticeEntry(this.#made, {
      id: `${this.#prefix}${this.#made}`,
      status: this.#random.pick(STATUSES),
      created_at: created.toISOString(),
      updated_at: at,
      ...this.#session(),
    })
    const bare = this.#random.chance(0.15) && { requirements: [], items: [], alerts: [] }
    const analysis = { ...entry.analysis, ...bare, id: entry.edital.id, status: entry.edital.status }
    this.world.put({ ...entry, analysis })
    this.#count('arrived')
  }

  #update(): void {
    const id = this.#any()
    if (!id) return
    this.#versions += 1
    const moved = this.#random.chance(0.1)
    const edital: Record<string, unknown> = {
      ...(this.#random.chance(0.8) && { objeto: `Objeto v${this.#versions}` }),
      ...(this.#random.chance(0.4) && { status: this.#random.pick(STATUSES) }),
      ...(this.#random.chance(0.3) && { valor_estimado: this.#random.int(0, 1000) / 4 }),
      ...(this.#random.chance(0.1) && { orgao: undefined }),
      ...(this.#random.chance(0.3) && this.#session()),
      // Another month: its rows move to another file.
      ...(moved && { created_at: new Date(Date.UTC(2026, this.#random.int(7, 11), 5)).toISOString() }),
      ...(this.#random.chance(0.85) && { updated_at: this.#time() }),
    }
    this.world.update(id, { edital })
    this.#count(moved ? 'moved to another month' : 'updated')
  }

  /** What deadlines follow from. */
  #session(): Record<string, unknown> {
    const uf = this.#random.chance(0.3) && { uf: this.#random.pick(['SP', 'sp', 'PE']) }
    return { data_sessao: `2026-12-${this.#random.int(10, 28)}T09:00:00`, ...uf }
  }

  #deepen(): void {
    const id = this.#any()
    if (!id) return
    this.world.update(id, { edital: { updated_at: this.#time() }, analysis: this.#analysis() })
    this.#count('analysed deeper')
  }

  /** Changes only the analysis: nothing else shows it. */
  #changeSilently(): void {
    const id = this.#any()
    if (!id) return
    this.world.update(id, { analysis: this.#analysis() })
    this.#count('changed silently')
  }

  #analysis(): Record<string, unknown> {
    this.#versions += 1
    const version = this.#versions
    // Its rows are in no file.
    const isBare = this.#random.chance(0.15)
    const some = (name: string, max: number, element: (n: number) => object) =>
      (isBare || this.#random.chance(0.6)) && {
        [name]: isBare
          ? []
          : Array.from({ length: this.#random.int(0, max) }, (_, index) => element(index + 1)),
      }
    return {
      analysis_level: this.#random.pick(LEVELS),
      verdict: { recommendation: 'cautela', reason: `Razão v${version}`, bullets: [`v${version}`] },
      ...some('requirements', 4, n => ({ category: 'outros', title: `v${version} ${n}`, status: 'red' })),
      ...some('items', 6, n => ({ numero_item: n, descricao: `v${version} ${n}`, quantidade: version })),
      ...some('alerts', 3, n => ({
        type: 'risk',
        severity: 'low',
        title: `v${version} ${n}`,
        action_type: 'none',
      })),
    }
  }

  #remove(): void {
    const id = this.#any()
    if (!id || this.world.size < 2) return
    this.world.remove(id)
    this.#count('removed')
  }

  #restore(): void {
    const [id] = this.#random.sample(this.world.removedIds(), 1)
    if (!id) return
    this.world.restore(id)
    if (this.#random.chance(0.5)) this.world.update(id, { edital: { status: this.#random.pick(STATUSES) } })
    this.#count('returned')
  }

  #any(): string | undefined {
    return this.#random.sample(this.world.ids(), 1)[0]
  }

  /** An `updated_at`: now, the same as another notice's, long ago, or in another time format. */
  #time(): string {
    const now = this.#now()
    const other = this.world.entry(this.#any() ?? '')?.edital.updated_at
    const choices: (readonly [string, number])[] = [
      [now.toISOString(), 6],
      [other ?? now.toISOString(), 2],
      [new Date(now.getTime() - this.#random.int(1, 400) * HOUR_MS).toISOString(), 2],
      [`${now.toISOString().slice(0, 19)}-03:00`, 1],
      [now.toISOString().slice(0, 19), 1],
      [`${now.toISOString().slice(0, 23)}456789Z`, 1],
    ]
    return this.#random.weighted(choices)
  }

  #count(what: string): void {
    const { counts } = this.ledger
    counts.set(what, (counts.get(what) ?? 0) + 1)
  }
}
