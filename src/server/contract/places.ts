import type { Refusal } from './source.ts'

type Most = {
  readonly ofKey: number
  /** Less than all, so that no company takes the places of the others. */
  readonly ofCompany: number
  readonly inAll: number
}

export type Whose = { readonly company: string; readonly key: string }

/** A limited number of places, for requests that hold something for long. */
export class Places {
  readonly #most: Most
  readonly #refuse: (taken: number, by: keyof Most) => Refusal
  readonly #taken = new Map<string, number>()
  #size = 0

  /** @param refuse what a request is answered if this many places are taken. */
  constructor(most: Most, refuse: (taken: number, by: keyof Most) => Refusal) {
    this.#most = most
    this.#refuse = refuse
  }

  /** Places that are taken. */
  get size(): number {
    return this.#size
  }

  /**
   * Takes a place for a request. @returns a function that gives the place back; it may be called again.
   * @throws Refusal if its key, its company or all have too many.
   */
  take({ company, key }: Whose): () => void {
    const names = [`key ${key}`, `company ${company}`]
    const [ofKey = 0, ofCompany = 0] = names.map(name => this.#taken.get(name) ?? 0)
    if (ofKey >= this.#most.ofKey) throw this.#refuse(ofKey, 'ofKey')
    if (ofCompany >= this.#most.ofCompany) throw this.#refuse(ofCompany, 'ofCompany')
    if (this.#size >= this.#most.inAll) throw this.#refuse(this.#size, 'inAll')
    this.#count(names, 1)
    let isTaken = true
    return () => {
      if (isTaken) this.#count(names, -1)
      isTaken = false
    }
  }

  #count(names: readonly string[], change: 1 | -1): void {
    this.#size += change
    for (const name of names) {
      const taken = (this.#taken.get(name) ?? 0) + change
      if (taken > 0) this.#taken.set(name, taken)
      else this.#taken.delete(name)
    }
  }
}
