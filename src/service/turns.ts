/** Work that waits for its turn, by whose it is. */
type Waiting = Map<string, (() => void)[]>

/**
 * Bounds how much is worked on at once, and shares it out: who asks for much waits behind those who ask for
 * little.
 * @returns does the work of `whose` when it is its turn; does nothing and resolves to null if by then nobody
 *   `isWanted` it any more.
 */
export function createTurns(
  places: number,
): <T>(whose: string, isWanted: () => boolean, work: () => Promise<T>) => Promise<T | null> {
  const waiting: Waiting = new Map()
  let free = places
  const next = () => {
    // The map's order is the round: who is served goes to its end.
    const [whose, queue] = waiting.entries().next().value ?? []
    if (whose === undefined || queue === undefined) {
      free += 1
      return
    }
    const begin = queue.shift()
    waiting.delete(whose)
    if (queue.length > 0) waiting.set(whose, queue)
    begin?.()
  }
  return async (whose, isWanted, work) => {
    if (free > 0) free -= 1
    else {
      await new Promise<void>(resolve => {
        const queue = waiting.get(whose) ?? []
        queue.push(resolve)
        waiting.set(whose, queue)
      })
    }
    try {
      return isWanted() ? await work() : null
    } finally {
      next()
    }
  }
}
