import { onTestFinished } from 'vitest'
import { Database } from '#src/core/warehouse/database.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'

let opened: Promise<Database> | null = null
let last: Promise<unknown> = Promise.resolve()

/**
 * Runs `work` with an empty database in memory, one after another: this test worker opens it once, because that takes
 * longer than most queries. `work` must leave it unchanged.
 */
export function inWorkerDatabase<T>(work: (db: Database) => Promise<T>): Promise<T> {
  opened ??= Database.open(':memory:', { threads: 1 })
  const database = opened
  const result = last.then(async () => await work(await database))
  last = result.catch(() => {})
  return result
}

let scratch: Promise<Database> | null = null
let isScratchTaken = false
/** The same for each test, so that views of one fit the tables of the next. */
const SCRATCH = 'scratch'

/** An empty database in memory, for a test that changes it. A worker opens one; a test's second one is its own. */
export async function openScratch(): Promise<Database> {
  if (isScratchTaken) {
    const own = await Database.open(':memory:', { threads: 1 })
    onTestFinished(() => own.close())
    return own
  }
  isScratchTaken = true
  scratch ??= Database.open(':memory:', { threads: 1 })
  const db = await scratch
  await db.run(`ATTACH ':memory:' AS ${SCRATCH}; USE ${SCRATCH}`)
  onTestFinished(async () => {
    await removeScratch(db).catch(() => {
      // For example in the middle of a statement: the next test gets another one.
      scratch = null
    })
    isScratchTaken = false
  })
  return db
}

async function removeScratch(db: Database): Promise<void> {
  const temporary = await db.rows<{ name: string; kind: string }>(
    `SELECT table_name AS name, 'TABLE' AS kind FROM duckdb_tables() WHERE temporary
     UNION ALL SELECT view_name, 'VIEW' FROM duckdb_views() WHERE temporary AND NOT internal`,
  )
  const drops = temporary.map(each => `DROP ${each.kind} temp.main.${identifier(each.name)}`)
  await db.run([...drops, 'USE memory', `DETACH ${SCRATCH}`].join('; '))
}
