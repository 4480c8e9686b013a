import { type Answered, answerOrders } from '#src/lib/child.ts'
import { type Indexed, type IndexOrder, updateIndex } from './indexer.ts'

export type IndexAnswer = Answered & { readonly indexed?: Indexed }

// Runs in a separate process: the first index of a large company takes seconds, while the server keeps answering.
answerOrders(async (order: IndexOrder) => ({ indexed: await updateIndex(order) }))
