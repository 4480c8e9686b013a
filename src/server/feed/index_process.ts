import { EXIT, messageOf } from '#src/lib/errors.ts'
import { endProcess } from '#src/lib/exit.ts'
import { type Indexed, type IndexOrder, updateIndex } from './indexer.ts'

export type IndexAnswer = { readonly error: string | null; readonly indexed: Indexed | null }

// Runs in a separate process: the first index of a large company takes seconds, while the server keeps answering.
process.on('message', async (order: IndexOrder) => {
  const answer = await updateIndex(order).then(
    indexed => ({ error: null, indexed }),
    (error: unknown) => ({ error: messageOf(error), indexed: null }),
  )
  process.send?.(answer satisfies IndexAnswer)
})
process.on('disconnect', () => endProcess(EXIT.ok))
