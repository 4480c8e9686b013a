/** Keeps the table `editais` of a SQLite file in step with the mirror: API_KEY=... node feed_to_sqlite.ts URL FILE */
import { DatabaseSync } from 'node:sqlite'
import { ApiError, ConnectionFailed, CursorGone, createClient, SnapshotGone } from '@editais-sync/client'

const [url = '', file = ''] = process.argv.slice(2)
const client = createClient({ url, apiKey: process.env.API_KEY ?? '' })
const db = new DatabaseSync(file, { timeout: 60_000 }) // a query of yours may hold it for a while
db.exec('CREATE TABLE IF NOT EXISTS editais (id TEXT PRIMARY KEY, document TEXT)')
db.exec('CREATE TABLE IF NOT EXISTS feed AS SELECT NULL AS cursor')
const orNull = (why: unknown) => (why instanceof ApiError && why.isMissing ? null : Promise.reject(why))
function store(rows: Iterable<readonly [string, object | null]>, cursor: string, clear = ''): void {
  db.exec(`BEGIN; ${clear}`) // rows and cursor, both or neither
  const put = db.prepare('INSERT OR REPLACE INTO editais VALUES (?, ?)')
  for (const [id, row] of rows) put.run(id, row && JSON.stringify(row))
  db.prepare('UPDATE feed SET cursor = ?').run(cursor)
  db.exec('DELETE FROM editais WHERE document IS NULL; COMMIT')
}
async function begin(): Promise<void> {
  const { next } = await client.get('/api/v1/mirror/changes', { query: { since: 'latest' } })
  const rows: [string, object][] = [] // read after the cursor: what changes meanwhile comes again
  for await (const line of client.exportNotices({ what: 'both' })) rows.push([line.edital.id, line])
  store(rows, next, 'DELETE FROM editais')
}
async function read(id: string): Promise<[string, object | null]> {
  const edital = await client.get('/api/v1/editais/{id}', { path: { id } }).catch(orNull)
  const analysis = edital && client.get('/api/v1/editais/{id}/analysis', { path: { id } }).catch(orNull)
  return [id, edital && { edital, analysis: await analysis }]
}
for (;;)
  try {
    const { cursor } = db.prepare('SELECT cursor FROM feed').get() as { cursor: string | null }
    if (cursor === null) await begin()
    else
      for await (const { events, next } of client.changes({ since: cursor }))
        store(await Promise.all([...new Set(events.map(event => event.edital_id))].map(read)), next)
  } catch (error) {
    if (error instanceof CursorGone) db.exec('UPDATE feed SET cursor = NULL')
    else if (!(error instanceof SnapshotGone || error instanceof ConnectionFailed)) throw error
  }
