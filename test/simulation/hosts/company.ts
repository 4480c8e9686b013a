import type { Random } from '#src/sandbox/random.ts'
import { World } from '#src/sandbox/world.ts'
import { noticeEntry } from '#test/support/notices.ts'

/**
 * A company whose every change has a later `updated_at`: then an analysis that was sealed for one never needs to be
 * requested again.
 */
export class StepwiseCompany {
  readonly world = new World([])
  readonly #random: Random
  #made = 0
  #versions = 0

  constructor(random: Random, notices: number) {
    this.#random = random
    for (let n = 0; n < notices; n += 1) this.#arrive()
  }

  change(): void {
    const [id] = this.#random.sample(this.world.ids(), 1)
    const kind = this.#random.int(0, 9)
    if (id === undefined || kind < 3) this.#arrive()
    else if (kind < 9) this.#update(id)
    else this.world.remove(id)
  }

  #arrive(): void {
    this.#made += 1
    const month = this.#random.int(0, 2)
    const created_at = new Date(Date.UTC(2026, 8 + month, 1 + this.#random.int(0, 20))).toISOString()
    this.world.put(
      noticeEntry(this.#made, { id: `n${this.#made}`, created_at, updated_at: this.#nextVersion() }),
    )
  }

  #update(id: string): void {
    const updated_at = this.#nextVersion()
    const version = this.#versions
    const verdict = { recommendation: 'cautela', reason: `Razão v${version}`, bullets: [] }
    this.world.update(id, {
      edital: { objeto: `Objeto v${version}`, updated_at },
      ...(this.#random.chance(0.7) ? { analysis: { verdict } } : {}),
    })
  }

  #nextVersion(): string {
    this.#versions += 1
    return new Date(Date.UTC(2026, 10, 1) + this.#versions * 1000).toISOString()
  }
}
