import { join } from 'node:path'
import { carryOut, startChild } from '#src/lib/child.ts'
import { messageOf } from '#src/lib/errors.ts'
import { createTurns } from '#src/lib/http/waiting_room.ts'
import type { IndexAnswer, Indexed, IndexOrder } from './indexer.ts'

const INDEX = join(import.meta.dirname, 'indexer.ts')

/** Variables of the environment that the object store's client reads: a role's credentials, and certificates. */
const FOR_STORES = /^(AWS_.+|SSL_CERT_.+|NODE_EXTRA_CA_CERTS)$/
/** Beside builders: they take a core while they work. */
const AT_ONCE = 2
/** A year's log takes minutes; what was done until then stays. */
const WITHIN_MS = 600_000

export type BringUp = (order: IndexOrder, signal: AbortSignal) => Promise<Indexed>

/**
 * Brings indexes of feeds up to date, each in a process that ends with it.
 * @returns a function that throws Error with the reason if that fails.
 */
export function createIndexers(): BringUp {
  const inTurn = createTurns(AT_ONCE)
  return async (order, signal) => {
    const answer = await inTurn(
      order.path,
      () => !signal.aborted,
      () => updateInProcess(order, signal),
    )
    if (answer === null) throw new Error('stopped')
    return answer
  }
}

async function updateInProcess(order: IndexOrder, signal: AbortSignal): Promise<Indexed> {
  const child = startChild(INDEX, order.shared ? { also: FOR_STORES } : {})
  try {
    const limits = { what: 'an indexer', withinMs: WITHIN_MS, signal }
    const answer = await carryOut<IndexAnswer>(child, order, limits).catch(error => ({
      error: `an indexer process cannot be started: ${messageOf(error)}`,
    }))
    if ('indexed' in answer && answer.indexed) return answer.indexed
    throw new Error(answer.error ?? 'an indexer process gave no answer')
  } finally {
    if (child.connected) child.disconnect()
  }
}
