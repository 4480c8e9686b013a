import { normalizeDateTime } from '#schema/times.ts'
import { listSegmentNumbers } from '#src/core/rawlog/files.ts'
import type { Line } from '#src/core/rawlog/line.ts'
import { RawLogWriter } from '#src/core/rawlog/writer.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { Random } from '#src/sandbox/random.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { noticeEntry } from '#test/support/notices.ts'

const MINUTE_MS = 60_000
/** Neither can be loaded: the warehouse sets such lines aside. */
const POISON = { notice: { valor_estimado: { of: 'an object' } }, analysis: { items: [{ quantidade: {} }] } }

export type Clock = { nowMs: number }

/**
 * The runs of a company, as lines of its log: notices arrive, change, change only in what the mirror does not serve, vanish
 * and return; their analyses come, come again without a change, do not come, cannot be used or cannot be loaded.
 */
export class History {
  readonly counts = new Map<string, number>()
  readonly #raw: string
  readonly #random: Random
  readonly #clock: Clock
  readonly #entries = new Map<string, Entry>()
  readonly #gone = new Set<string>()
  #log: string | null = null
  #made = 0
  #versions = 0
  #runs = 0

  constructor(raw: string, random: Random, clock: Clock) {
    this.#raw = raw
    this.#random = random
    this.#clock = clock
  }

  /** The next run begins a log; the company stays. */
  beginLog(): void {
    this.#log = null
  }

  /** The next run continues the log of this name. */
  continueLog(name: string | null): void {
    this.#log = name
  }

  /** One run: the list, then analyses, in one segment or two. */
  async run(changes: number): Promise<void> {
    this.#runs += 1
    const runId = `run-${this.#runs}`
    const firstNumber = (await listSegmentNumbers(this.#raw)).length + 1
    const writer = new RawLogWriter({ directory: this.#raw, firstNumber, runId, now: () => this.#now() })
    const mode = 'incremental' as const
    const begun = { type: 'run_started' as const, mode, company: 'acme', analysis_statuses: [] }
    await writer.append(this.#log === null ? begun : { ...begun, log: this.#log })
    const isAnew = this.#log === null
    this.#log ??= runId
    const listed = isAnew ? await this.#listAll(writer) : await this.#list(writer, changes)
    if (this.#random.chance(0.7)) await writer.seal()
    for (const id of listed) await this.#analyse(writer, id)
    if (!isAnew && this.#random.chance(0.3)) await this.#readAgain(writer, listed)
    await writer.seal()
    await writer.close()
  }

  async #listAll(writer: RawLogWriter): Promise<string[]> {
    for (const id of this.#gone) this.#entries.delete(id)
    this.#gone.clear()
    while (this.#entries.size < 3) this.#arrive()
    for (const id of this.#entries.keys()) await this.#notice(writer, id)
    return [...this.#entries.keys()]
  }

  /** @returns the notices whose analyses are due. */
  async #list(writer: RawLogWriter, changes: number): Promise<string[]> {
    const due: string[] = []
    const ids = this.#random.sample([...this.#entries.keys()], changes)
    for (const id of ids) {
      if (this.#gone.has(id)) {
        if (this.#random.chance(0.5)) continue
        this.#gone.delete(id)
        this.#count('returned')
      } else if (this.#random.chance(0.15)) {
        this.#gone.add(id)
        await writer.append({ type: 'gone', edital_id: id })
        this.#count('gone')
        continue
      }
      this.#change(id)
      if (await this.#notice(writer, id)) due.push(id)
    }
    for (let more = this.#random.int(0, 2); more > 0; more -= 1) {
      const id = this.#arrive()
      if (await this.#notice(writer, id)) due.push(id)
    }
    return due
  }

  /** Analyses of notices that did not change. */
  async #readAgain(writer: RawLogWriter, listed: readonly string[]): Promise<void> {
    const others = [...this.#entries.keys()].filter(id => !this.#gone.has(id) && !listed.includes(id))
    for (const id of this.#random.sample(others, 2)) await this.#analyse(writer, id)
  }

  #arrive(): string {
    this.#made += 1
    const created_at = new Date(Date.UTC(2026, 8 + this.#random.int(0, 2), 3)).toISOString()
    const entry = noticeEntry(this.#made, { created_at, updated_at: this.#time() })
    this.#entries.set(entry.edital.id, entry)
    return entry.edital.id
  }

  #change(id: string): void {
    const { edital, analysis } = this.#entries.get(id) as Entry
    this.#versions += 1
    const { valor_estimado: _, ...withoutValue } = edital
    const next = this.#random.weighted<Entry['edital']>([
      [{ ...edital, objeto: `Objeto v${this.#versions}`, updated_at: this.#time() }, 4],
      [{ ...edital, objeto: `Objeto v${this.#versions}` }, 1],
      [{ ...withoutValue, orgao: null, updated_at: this.#time() }, 1],
      [{ ...edital, objeto: 'x'.repeat(3000 + (this.#versions % 3)), updated_at: this.#time() }, 1],
      // Nothing that the mirror serves.
      [{ ...edital, de_fora: this.#versions }, 1],
      [{ ...edital, data_sessao: this.#time() }, 1],
      [{ ...edital, created_at: new Date(Date.UTC(2026, this.#random.int(7, 11), 5)).toISOString() }, 0.5],
    ])
    this.#entries.set(id, { edital: next, analysis })
  }

  /** False if the line is not about a usable notice. */
  async #notice(writer: RawLogWriter, id: string): Promise<boolean> {
    const { edital } = this.#entries.get(id) as Entry
    const { updated_at } = edital
    if (this.#random.chance(0.04)) {
      await writer.append(rejected(id, 'notice', updated_at))
      this.#count('rejected')
      return false
    }
    const isPoison = this.#random.chance(0.04)
    if (isPoison) this.#count('poison')
    const document = { ...edital, ...(isPoison ? POISON.notice : {}), ...canonicalTimes(edital) }
    await writer.append({ type: 'notice', edital_id: id, updated_at }, { notice: JSON.stringify(document) })
    return true
  }

  async #analyse(writer: RawLogWriter, id: string): Promise<void> {
    const { edital, analysis } = this.#entries.get(id) as Entry
    const { updated_at } = edital
    const what = this.#random.weighted([
      ['changed', 5],
      ['same', 4],
      ['pending', 1],
      ['rejected', 1],
      ['poison', 0.7],
      ['as it was', 1],
    ])
    this.#count(`analysis ${what}`)
    if (what === 'pending') return
    if (what === 'rejected') return await writer.append(rejected(id, 'analysis', updated_at))
    const about = { edital_id: id, updated_at, source_updated_at: normalizeDateTime(updated_at) }
    if (what === 'same') {
      return await writer.append({
        type: 'analysis_same',
        ...about,
        hash: hashContent(JSON.stringify(analysis)),
      })
    }
    const changed = what === 'changed' ? this.#deepen(id) : analysis
    const document = JSON.stringify({ ...changed, ...(what === 'poison' ? POISON.analysis : {}) })
    const segments = (await listSegmentNumbers(this.#raw)).length
    // As a replay writes it.
    const replayed =
      segments > 0 && this.#random.chance(0.05) ? { fetched_in: this.#random.int(1, segments) } : {}
    const line: Line = { type: 'analysis', ...about, ...replayed, hash: hashContent(document) }
    await writer.append(line, { analysis: document })
  }

  #deepen(id: string): object {
    const { edital, analysis } = this.#entries.get(id) as Entry
    this.#versions += 1
    const version = this.#versions
    const recommendation = this.#random.pick(['participar', 'cautela', 'nao_recomendado', null])
    const next = {
      ...analysis,
      verdict: { recommendation, reason: `v${version}`, summary: null, bullets: ['um'] },
      pricing: this.#random.pick([null, {}, { margem_min: version / 4 }]),
      items: Array.from({ length: this.#random.int(0, 40) }, (_, n) => ({
        numero_item: n,
        descricao: `Item v${version}`,
      })),
    }
    this.#entries.set(id, { edital, analysis: next })
    return next
  }

  #now(): Date {
    this.#clock.nowMs += this.#random.int(1, 20)
    return new Date(this.#clock.nowMs)
  }

  /** In the forms that the API writes, some of them for the same instant. */
  #time(): string {
    const iso = new Date(this.#clock.nowMs - this.#random.int(0, 3) * MINUTE_MS).toISOString()
    return this.#random.pick([
      iso,
      `${iso.slice(0, 19)}Z`,
      `${iso.slice(0, 19)}-03:00`,
      `${iso.slice(0, 19)}+00:00`,
      `${iso.slice(0, 23)}456Z`,
      `${iso.slice(0, 23)}456789Z`,
      iso.slice(0, 19),
      iso.slice(0, 10),
    ])
  }

  #count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1)
  }
}

function canonicalTimes({ created_at, updated_at, data_sessao }: Entry['edital']): object {
  return {
    created_at: normalizeDateTime(created_at),
    updated_at: normalizeDateTime(updated_at),
    ...(typeof data_sessao === 'string' ? { data_sessao: normalizeDateTime(data_sessao) } : {}),
  }
}

function rejected(edital_id: string, kind: 'notice' | 'analysis', updated_at: string): Line {
  const raw = Buffer.from('{').toString('base64')
  const why = { reason: 'the body is truncated JSON', path: '$', excerpt: '{' }
  return { type: 'rejected', edital_id, kind, updated_at, ...why, hash: hashContent('{'), raw }
}
