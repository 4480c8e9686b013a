import type { Answered } from '#src/lib/child.ts'
import { EXIT, messageOf } from '#src/lib/errors.ts'
import { endProcess } from '#src/lib/exit.ts'
import { copyForeign, type ForeignWarehouse } from './foreign_warehouse.ts'

// Runs in a separate process: a file that was made to break the database's code breaks only this one.
process.on('message', async (warehouse: ForeignWarehouse) => {
  const error = await copyForeign(warehouse).catch(messageOf)
  process.send?.({ error } satisfies Answered)
})
process.on('disconnect', () => endProcess(EXIT.ok))
