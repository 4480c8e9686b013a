import { Place } from '#src/platform/http/linked_list.ts'
import { WaitingRoom } from '#src/platform/http/waiting_room.ts'

type Waiter = { readonly begin: () => void }

const AT_ONCE = { tryBegin: () => true }

/**
 * Bounds how much is worked on at once, and shares it out: who asks for much waits behind those who ask for
 * little.
 * @param pace bounds how much begins in a turn of the event loop.
 * @returns does the work of `whose` when it is its turn; does nothing and resolves to null if by then nobody
 *   `isWanted` it any more.
 */
export function createTurns(
  places: number,
  pace: { tryBegin(): boolean } = AT_ONCE,
): <T>(whose: string, isWanted: () => boolean, work: () => Promise<T>) => Promise<T | null> {
  let free = places
  const room = new WaitingRoom<Waiter>({
    pace,
    hasRoom: () => free > 0,
    begin(waiter) {
      free -= 1
      waiter.begin()
    },
  })
  return async (whose, isWanted, work) => {
    await new Promise<void>(begin => room.enter(whose, new Place<Waiter>({ begin })))
    try {
      return isWanted() ? await work() : null
    } finally {
      free += 1
      room.beginNext()
    }
  }
}
