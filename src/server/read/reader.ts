import { rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { readLatestName } from '#src/core/lake/manifest.ts'
import { listFiles } from '#src/core/lake/read.ts'
import type { Database, StatementKind } from '#src/core/warehouse/database.ts'
import { FatalError, getMessage } from '#src/lib/errors.ts'
import { openWithOurMarts } from '#src/marts/open.ts'
import { fence, findHint } from '#src/present/sql/fence.ts'
import { admitForeign } from './admit.ts'
import {
  cut,
  OWN_DIRECTORY,
  type PlacedOrder,
  parseValue,
  type ReadMessage,
  type ReadSource,
  type Rows,
  revealText,
  revealValue,
  type Statement,
  type VisibleValue,
} from './order.ts'

/** Maximum that the rest of DuckDB's work may spill. */
const MAX_SPILLED = '256MB'
const THREADS = 2
/** DuckDB does not count all that a query uses, such as one long text. */
const MAX_RSS_BYTES = 700 * 1024 * 1024
const LOOK_EVERY_MS = 20
/** The limits that this process asks of Linux, if it runs there. */
const ASKED_OF_LINUX = [
  // To be the first to end if memory runs out, not the server.
  { path: '/proc/self/oom_score_adj', value: '1000' },
  // To dump no memory if it crashes: deep nesting overflows DuckDB's stack, and a client could fill the disk with dumps.
  { path: '/proc/self/coredump_filter', value: '0' },
] as const

/** Maximum length of a message, in characters: DuckDB's can repeat a value that the query made. */
const MAX_MESSAGE = 1000

/** Waits for this process's order. It is its only one: nothing is left for the next, and it can be killed at any time. */
export function answerOrder(): void {
  process.once('message', (order: PlacedOrder) => void carryOut(order))
  process.on('disconnect', leaveNothing)
  // It may have gone before.
  if (!process.connected) leaveNothing()
}

/** Removes what this process spilled, and ends it: the server is gone, and cannot do so. */
function leaveNothing(): void {
  const own = process.cwd()
  try {
    if (basename(own).startsWith(OWN_DIRECTORY)) rmSync(own, { recursive: true, force: true })
  } finally {
    // Not `exit`, which waits for DuckDB.
    process.kill(process.pid, 'SIGKILL')
  }
}

async function carryOut(order: PlacedOrder): Promise<void> {
  for (const { path, value } of ASKED_OF_LINUX) await writeFile(path, value).catch(() => {})
  const watch = setInterval(() => {
    if (process.memoryUsage.rss() > MAX_RSS_BYTES) finish({ kind: 'too_large' })
  }, LOOK_EVERY_MS)
  const message = await read(order).catch(asMessage)
  clearInterval(watch)
  finish('why' in message ? { ...message, why: revealText(cut(message.why, MAX_MESSAGE)) } : message)
}

/** Sends a message and ends the process at once, because the query may still run. */
function finish(message: ReadMessage): void {
  process.send?.(message, () => process.kill(process.pid, 'SIGKILL'))
}

function asMessage(error: unknown): ReadMessage {
  if (error instanceof FatalError) return { kind: 'refused', why: error.message }
  return { kind: 'failed', why: getMessage(error) }
}

async function read({ lake, temporary, ...order }: PlacedOrder): Promise<ReadMessage> {
  if ((await readLatestName(lake)) === null)
    throw new FatalError('The company has no snapshot yet. Its first sync publishes one.')
  const { db, sources } = await open(lake, temporary)
  const source = await readSource(db)
  process.send?.({ kind: 'opened' } satisfies ReadMessage)
  const hide = hidePaths([lake, temporary, ...sources.map(({ directory }) => directory)])
  try {
    const results: Rows[] = []
    let bytesLeft = order.maxBytes
    for (const [index, statement] of order.statements.entries()) {
      if (order.isForeign) await admitForeign(db, statement.sql)
      const maxBytes = bytesLeft - keptFor(order.statements.length - 1 - index, order)
      const { rows, bytes } = await readRows(db, statement, { maxBytes, maxText: order.maxText })
      bytesLeft -= bytes
      results.push(rows)
    }
    return { kind: 'answer', answer: hide({ ...source, results }) }
  } catch (error) {
    if (error instanceof FatalError) throw new FatalError(hide(error.message))
    // Ours cannot fail, unless a value does not fit a column.
    throw new FatalError(hide(`The query failed: ${explained(error)}`))
  }
}

/** Returns bytes for later statements: long texts in the rows of one must not hide those of all others. */
function keptFor(
  later: number,
  { maxBytes, statements }: Pick<PlacedOrder, 'maxBytes' | 'statements'>,
): number {
  return Math.floor((later * maxBytes) / statements.length / 2)
}

/** Opens the lake behind the fence. @throws Error for the log: its message can contain paths. */
async function open(lake: string, temporary: string) {
  try {
    const { db, sources } = await openWithOurMarts(lake, temporary)
    await db.useThreads(THREADS)
    await db.run(`SET max_temp_directory_size = '${MAX_SPILLED}'`)
    await fence(db, sources.flatMap(listFiles))
    return { db, sources }
  } catch (error) {
    throw new Error(getMessage(error).replace(/\.$/, ''))
  }
}

async function readSource(db: Database): Promise<ReadSource> {
  return await db.row<ReadSource & Record<string, unknown>>(
    `SELECT company, snapshot, strftime(published_at, '%Y-%m-%dT%H:%M:%SZ') AS "publishedAt" FROM snapshot_info`,
  )
}

/** Returns the first line of DuckDB's message, and its hint. */
function explained(error: unknown): string {
  const hint = findHint(error)
  return [getMessage(error), hint ?? ''].filter(Boolean).map(asSentence).join(' ')
}

function asSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

type Bounds = { readonly maxBytes: number; readonly maxText: number }

async function readRows(
  db: Database,
  { sql, values, maxRows }: Statement,
  { maxBytes, maxText }: Bounds,
): Promise<{ rows: Rows; bytes: number }> {
  const admit = (kind: StatementKind) => {
    if (kind !== 'SELECT') throw new FatalError('Only SELECT statements are allowed.')
  }
  const stream = await db.ask(sql, admit, values)
  const columns = stream.columns.map(({ name }) => revealValue(name, maxText))
  const rows: VisibleValue[][] = []
  let bytes = Buffer.byteLength(JSON.stringify(columns))
  if (bytes > maxBytes)
    throw new FatalError(`The result has too many columns (${columns.length}). Name those that you need.`)
  for await (const group of stream.rows('json'))
    for (const written of group) {
      const row = written.map(value => (value === null ? null : revealValue(parseValue(value), maxText)))
      const size = Buffer.byteLength(JSON.stringify(row))
      if (rows.length === maxRows || bytes + size > maxBytes)
        return { rows: { columns, rows, isCut: true }, bytes }
      bytes += size
      rows.push(row)
    }
  return { rows: { columns, rows, isCut: false }, bytes }
}

/** Replaces these directories in every text. SQL cannot read them, but an error message can contain one. */
function hidePaths(directories: readonly string[]): <T>(value: T) => T {
  const longestFirst = [...new Set(directories)].sort((a, b) => b.length - a.length)
  return value => {
    let json = JSON.stringify(value)
    for (const directory of longestFirst) json = json.replaceAll(JSON.stringify(directory).slice(1, -1), '…')
    return JSON.parse(json)
  }
}
