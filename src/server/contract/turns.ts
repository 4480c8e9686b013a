import { Place } from '#src/lib/http/linked_list.ts'
import { WaitingRoom } from '#src/lib/http/waiting_room.ts'

type Waiter = { readonly begin: () => void }

const AT_ONCE = { tryBegin: () => true }

/**
 * Bounds how much work runs at once, and shares it fairly: a client with many requests waits behind clients with
 * few.
 * @param pace bounds how much work starts in a turn of the event loop.
 * @returns a function that runs the work of `whose` when it is its turn. It resolves to null, without running the
 *   work, if `isWanted` is false by then.
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
