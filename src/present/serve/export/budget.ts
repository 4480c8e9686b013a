/** Memory that several share: who finds too little left waits until others have returned enough. */
export class Budget {
  readonly #most: number
  readonly #waiting: { readonly bytes: number; readonly begin: () => void }[] = []
  #left: number

  /** @param most bytes. */
  constructor(most: number) {
    this.#most = most
    this.#left = most
  }

  /** @returns a function that returns the bytes; null if there are not enough. */
  tryTake(bytes: number): (() => void) | null {
    return this.#waiting.length === 0 && this.#has(bytes) ? this.#taken(bytes) : null
  }

  /** Waits until there are enough, in the order of the calls. More than there are in all counts as all. */
  async take(bytes: number): Promise<() => void> {
    const all = Math.min(bytes, this.#most)
    if (this.#waiting.length > 0 || !this.#has(all))
      await new Promise<void>(begin => this.#waiting.push({ bytes: all, begin }))
    else return this.#taken(all)
    return this.#returner(all)
  }

  #has(bytes: number): boolean {
    return bytes <= this.#left
  }

  #taken(bytes: number): () => void {
    this.#left -= bytes
    return this.#returner(bytes)
  }

  #returner(bytes: number): () => void {
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      this.#left += bytes
      for (let next = this.#waiting[0]; next && this.#has(next.bytes); next = this.#waiting[0]) {
        this.#waiting.shift()
        this.#left -= next.bytes
        next.begin()
      }
    }
  }
}
