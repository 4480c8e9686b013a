import { WaitingRoom } from '#src/http/waiting_room.ts'

/** For so long work begins in one turn of the event loop. */
const BEGIN_WITHIN_MS = 2

/**
 * Bounds how much is worked on at once, and shares it out: who asks for much waits behind those who ask for
 * little.
 * @returns does the work of `whose` when it is its turn; does nothing and resolves to null if by then nobody
 *   `isWanted` it any more.
 */
export function createTurns(
  places: number,
): <T>(whose: string, isWanted: () => boolean, work: () => Promise<T>) => Promise<T | null> {
  let free = places
  const room = new WaitingRoom(BEGIN_WITHIN_MS, () => free > 0)
  return async (whose, isWanted, work) => {
    await new Promise<void>(resolve => {
      room.enter(whose, () => {
        free -= 1
        resolve()
      })
    })
    try {
      return isWanted() ? await work() : null
    } finally {
      free += 1
      room.look()
    }
  }
}
