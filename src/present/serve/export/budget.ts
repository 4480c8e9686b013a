/** Memory that downloads share for work ahead of time. One that finds too little left works without it. */
export class Budget {
  #left: number

  /** @param most bytes. */
  constructor(most: number) {
    this.#left = most
  }

  /** Takes bytes from the budget. @returns a function that gives them back; null if there are not enough. */
  tryTake(bytes: number): (() => void) | null {
    if (bytes > this.#left) return null
    this.#left -= bytes
    let isTaken = true
    return () => {
      if (isTaken) this.#left += bytes
      isTaken = false
    }
  }
}
