import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '#src/sandbox/random.ts'

/** What a process asks of the store or the API, until it gets its turn. `begins` for a process that is to begin. */
type Waiting<H> = {
  readonly host: H
  readonly what: string
  readonly begins: boolean
  /** Whether it waited while its process stood still. */
  stood: boolean
  readonly pass: (stood: boolean) => void
}

type Hooks<H> = {
  /** Whether a process stands still from this request on. */
  readonly stands: (host: H) => boolean
  /** It goes on. */
  readonly resumes: (host: H) => Promise<void>
}

/** Of all turns while others are under way. A process that begins while another one holds the log mostly ends at once. */
const BEGINS = 0.005
const RESUMES = 0.02

/**
 * Gives the requests of all hosts their turns, one after another: those of several processes in between each other, as drawn, and
 * not by who is faster, so that the same seed gives the same simulation. A process may stand still before any of them.
 */
export class Turns<H extends { readonly name: string }> {
  readonly #random: Random
  readonly #hooks: Hooks<H>
  readonly #waiting: Waiting<H>[] = []
  /** Hosts with a process. */
  readonly #busy = new Set<H>()
  readonly #standing = new Set<H>()
  #isOpen = false

  constructor(random: Random, hooks: Hooks<H>) {
    this.#random = random
    this.#hooks = hooks
  }

  /** Resolves once a process may begin on a host; it ends with `end`. */
  async begin(host: H): Promise<void> {
    await this.#wait(host, 'begin', true)
  }

  end(host: H): void {
    this.#busy.delete(host)
    this.#standing.delete(host)
  }

  /** Resolves once it is a request's turn. @returns whether it was under way while its process stood still. */
  async pass(host: H, what: string): Promise<boolean> {
    return await this.#wait(host, what, false)
  }

  #wait(host: H, what: string, begins: boolean): Promise<boolean> {
    return new Promise(pass => {
      this.#waiting.push({ host, what, begins, stood: false, pass })
      if (!this.#isOpen) void this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#isOpen = true
    for (let before = 0; ; ) {
      await sleep(1)
      const { length } = this.#waiting
      if (length === 0 && this.#busy.size === 0) break
      // Each process has come to a request, and no more arrive.
      const isQuiet = length === before && [...this.#busy].every(host => this.#isAtRest(host))
      before = length
      if (!isQuiet) continue
      await this.#next()
      before = this.#waiting.length
    }
    this.#isOpen = false
  }

  #isAtRest(host: H): boolean {
    return this.#standing.has(host) || this.#waiting.some(one => one.host === host && !one.begins)
  }

  async #next(): Promise<void> {
    const free = this.#sorted(one => !one.begins && !this.#standing.has(one.host))
    const begins = this.#sorted(one => one.begins && !this.#busy.has(one.host))
    const standing = [...this.#standing].sort((a, b) => (a.name < b.name ? -1 : 1))
    if (standing.length > 0 && (free.length + begins.length === 0 || this.#random.chance(RESUMES)))
      return await this.#resume(this.#random.pick(standing))
    const of = begins.length > 0 && (free.length === 0 || this.#random.chance(BEGINS)) ? begins : free
    if (of.length === 0) return
    const one = this.#random.pick(of)
    if (one.begins) this.#busy.add(one.host)
    else if (this.#hooks.stands(one.host)) {
      this.#standing.add(one.host)
      return
    }
    this.#waiting.splice(this.#waiting.indexOf(one), 1)
    one.pass(one.stood)
  }

  async #resume(host: H): Promise<void> {
    this.#standing.delete(host)
    for (const one of this.#waiting) if (one.host === host) one.stood = true
    await this.#hooks.resumes(host)
  }

  #sorted(which: (one: Waiting<H>) => boolean): Waiting<H>[] {
    const key = ({ host, what }: Waiting<H>) => `${host.name} ${what}`
    return this.#waiting.filter(which).sort((a, b) => (key(a) < key(b) ? -1 : 1))
  }
}
