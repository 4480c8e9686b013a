import { Database } from '#src/store/warehouse/database.ts'

let opened: Promise<Database> | null = null
let last: Promise<unknown> = Promise.resolve()

/**
 * Runs `work` with an empty database in memory, one after another: this test worker opens it once, because that takes
 * longer than most queries. `work` leaves it as it was.
 */
export function inWorkerDatabase<T>(work: (db: Database) => Promise<T>): Promise<T> {
  opened ??= Database.open(':memory:', { threads: 1 })
  const database = opened
  const result = last.then(async () => await work(await database))
  last = result.catch(() => {})
  return result
}
