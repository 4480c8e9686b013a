import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { makePrintableLines } from '#schema/text_key.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { PRIVATE_FILE } from '#src/lib/access.ts'
import { explain } from '#src/lib/errors.ts'
import { maskTexts } from '#src/present/sql/fence.ts'
import { renderTable } from '#src/present/terminal/table.ts'
import { printTable, type SnapshotQuery } from './snapshot_sql.ts'

const PROMPT = 'editais> '
const MORE = '    ...> '
const MAX_HISTORY = 1000
const INTERRUPT_MS = 50
const MIN_MEANING = 40
/** Characters of a cell's edge and blanks. */
const BORDER = 3
const LEAVE = /^\s*(\.(quit|exit)|quit;?|exit;?)\s*$/
const WELCOME =
  'Query the latest snapshot in SQL. End a statement with ; and press Tab to complete. .help shows more.\n'
const HELP = `Tab            completes tables, columns and keywords
;              ends a statement, which may have several lines
Ctrl-C         clears the input, or cancels the running query
Ctrl-D, .quit  leaves
.tables        lists tables and marts
.columns NAME  lists the columns of a table or mart, and what they mean
`

/** Prompts for SQL on the terminal, until the user leaves it. An error prints one line, and the prompt continues. */
export async function prompt(asked: SnapshotQuery): Promise<void> {
  const catalog = await readCatalog(asked.db)
  const history = historyFile()
  const statements = new Statements()
  process.stdout.write(WELCOME)
  const terminal: Interface = createInterface({
    input: process.stdin,
    output: process.stdout,
    prompt: PROMPT,
    historySize: MAX_HISTORY,
    removeHistoryDuplicates: true,
    history: await readHistory(history),
    completer: (line: string) => {
      const behind = terminal.line.slice(line.length)
      return complete(line, { before: statements.begun, behind }, catalog)
    },
  })
  let saved = Promise.resolve()
  terminal.on('history', lines => {
    // A statement of several lines comes back whole, in one.
    if (statements.begun !== '') joinNewest(lines)
    saved = saved.then(() => writeHistory(history, lines))
  })
  // What was typed while a query ran stays in the line, with the cursor after it.
  const show = () => {
    terminal.setPrompt(statements.begun === '' ? PROMPT : MORE)
    terminal.prompt(true)
  }
  let isOpen = true
  terminal.once('close', () => {
    isOpen = false
  })
  const answers = new Answers(asked, statements, () => terminal.close())
  // Read at once, not when the previous statement is done: Ctrl-C must know what was typed.
  terminal.on('line', line => {
    statements.add(line)
    void answers.giveAll().then(() => isOpen && show())
  })
  terminal.on('SIGINT', () => {
    statements.clear()
    process.stdout.write('^C\n')
    if (answers.cancel()) return
    // Clears the whole line, as Ctrl-E and Ctrl-U do.
    terminal.write(null, { ctrl: true, name: 'e' })
    terminal.write(null, { ctrl: true, name: 'u' })
    show()
  })
  show()
  await once(terminal, 'close')
  statements.clear()
  answers.cancel()
  await Promise.all([answers.giveAll(), saved])
}

/** Joins the newest line of a history with the one before, of the same statement. @param lines the newest first. */
function joinNewest(lines: string[]): void {
  const [line = '', before] = lines
  // What follows a comment would become a part of it.
  if (before !== undefined && !before.includes('--')) lines.splice(0, 2, `${before} ${line.trim()}`)
}

/** Runs statements, one after another. */
class Answers {
  readonly #asked: SnapshotQuery
  readonly #statements: Statements
  readonly #leave: () => void
  #giving: Promise<void> | null = null
  #isCancelled = false

  constructor(asked: SnapshotQuery, statements: Statements, leave: () => void) {
    this.#asked = asked
    this.#statements = statements
    this.#leave = leave
  }

  /** Resolves when no statement is waiting. */
  giveAll(): Promise<void> {
    this.#giving ??= this.#giveEach().finally(() => {
      this.#giving = null
    })
    return this.#giving
  }

  /** Returns whether there was a statement to cancel. */
  cancel(): boolean {
    if (this.#giving === null) return false
    this.#isCancelled = true
    this.#asked.db.interrupt()
    return true
  }

  /** Interrupts again and again: a statement that has not begun yet misses the first interrupt. */
  async #untilEnded(answering: Promise<void>): Promise<void> {
    const again = setInterval(() => {
      if (this.#isCancelled) this.#asked.db.interrupt()
    }, INTERRUPT_MS)
    try {
      await answering
    } finally {
      clearInterval(again)
    }
  }

  async #giveEach(): Promise<void> {
    for (let text = this.#statements.next(); text !== undefined; text = this.#statements.next()) {
      if (LEAVE.test(text)) return this.#leave()
      this.#isCancelled = false
      try {
        await this.#untilEnded(answer(text, this.#asked))
      } catch (error) {
        process.stdout.write(
          this.#isCancelled ? 'Cancelled.\n' : `${makePrintableLines(explain(error).message)}\n`,
        )
      }
    }
  }
}

/** Turns lines into statements and commands of the prompt. */
class Statements {
  /** The lines so far of an unfinished statement. */
  begun = ''
  #waiting: string[] = []

  add(line: string): void {
    const text = this.begun === '' ? line.trim().replace(/^;+$/, '') : `${this.begun}\n${line}`
    const isWhole = text === '' || text.startsWith('.') || LEAVE.test(text) || isComplete(text)
    this.begun = isWhole ? '' : text
    if (isWhole && text !== '') this.#waiting.push(text)
  }

  next(): string | undefined {
    return this.#waiting.shift()
  }

  clear(): void {
    this.begun = ''
    this.#waiting = []
  }
}

async function answer(text: string, { db, ask }: SnapshotQuery): Promise<void> {
  if (text.startsWith('.')) await command(text, db)
  else await printTable(await ask({ text, file: null }))
}

async function command(text: string, db: Database): Promise<void> {
  const [name, relation = ''] = text.replace(/;$/, '').split(/\s+/)
  if (name === '.tables') return show(await db.rows<Named>(RELATIONS))
  if (name !== '.columns') return void process.stdout.write(HELP)
  const columns = await db.rows<Named>(COLUMNS, { relation: relation.toLowerCase() })
  if (columns.length > 0) return show(columns)
  process.stdout.write(`There is no table ${JSON.stringify(relation)}. .tables lists them.\n`)
}

type Named = { readonly name: string; readonly type?: string; readonly meaning: string | null }

/** Prints rows as a table as wide as the terminal. */
function show(rows: readonly Named[]): void {
  const widest = (texts: readonly (string | undefined)[]) =>
    Math.max(0, ...texts.map(text => (text === undefined ? 0 : text.length + BORDER)))
  const others = widest(rows.map(({ name }) => name)) + widest(rows.map(({ type }) => type))
  const room = process.stdout.columns - others - BORDER - 1
  process.stdout.write(renderTable(Object.keys(rows[0] ?? {}), rows, Math.max(MIN_MEANING, room)))
}

const RELATIONS = `
  SELECT view_name AS name, comment AS meaning FROM duckdb_views() WHERE NOT internal
  UNION ALL SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal
  ORDER BY name`
const COLUMNS = `
  SELECT column_name AS name, data_type AS type, comment AS meaning FROM duckdb_columns()
  WHERE NOT internal AND table_name = $relation ORDER BY column_index`

async function readCatalog(db: Database): Promise<Catalog> {
  const rows = await db.rows<{ relation: string; columns: string[] }>(
    `SELECT table_name AS relation, list(column_name ORDER BY column_index) AS columns
     FROM duckdb_columns() WHERE NOT internal GROUP BY table_name ORDER BY table_name`,
  )
  return new Map(rows.map(({ relation, columns }) => [relation, columns]))
}

function historyFile(): string {
  const state = process.env.XDG_STATE_HOME || join(homedir(), '.local', 'state')
  return join(state, 'editais-sync', 'query_history')
}

/** Reads the history, the newest line first. */
async function readHistory(path: string): Promise<string[]> {
  const text = await readFile(path, 'utf8').catch(() => '')
  return text.split('\n').filter(Boolean)
}

/** Queries may name companies and prices, so only this user can read them. Without a history, the prompt still works. */
async function writeHistory(path: string, lines: readonly string[]): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await writeFile(path, `${lines.join('\n')}\n`, { mode: PRIVATE_FILE })
  } catch {
    // A home directory that is not writable must not end the prompt.
  }
}

/** The completions that Tab offers in the prompt. */

/** The relations of a catalog with their columns, in their order. */
type Catalog = ReadonlyMap<string, readonly string[]>

/** Commands of the prompt; everything else is SQL. */
const DOT_COMMANDS = ['.tables', '.columns', '.help', '.quit'] as const

const KEYWORDS = [
  'SELECT,FROM,WHERE,GROUP BY,GROUP BY ALL,ORDER BY,HAVING,LIMIT,JOIN,LEFT JOIN,USING,ON,AS',
  'AND,OR,NOT,IN,IS NULL,IS NOT NULL,BETWEEN,LIKE,ILIKE,CASE,WHEN,THEN,ELSE,END',
  'DISTINCT,COUNT,SUM,AVG,MIN,MAX,MEDIAN,FILTER,DESC,DESCRIBE,SUMMARIZE,WITH,UNION ALL',
  'DATE,INTERVAL,TRUE,FALSE,NULL',
].flatMap(line => line.split(','))
/** Behind these, only a relation makes sense. */
const BEFORE_RELATION = /\b(?:from|join|describe|summarize)\s+$/i
const IN_USE =
  /\b(?:from|join)\s+"?(\w+)"?(?:\s+(?:as\s+)?(?!(?:join|left|where|group|order|using|on|limit)\b)"?(\w+)"?)?/gi

/**
 * Returns the words that can stand where `line` ends, and the part of it that they replace.
 * @param around what of the statement stands before and behind it.
 */
export function complete(
  line: string,
  { before, behind }: { readonly before: string; readonly behind: string },
  catalog: Catalog,
): [words: string[], part: string] {
  if (before === '' && /^\.\w*$/.test(line)) return [startingWith(line, DOT_COMMANDS), line]
  const [part = ''] = /(?<![\w.])[\w.]*$/.exec(line) ?? []
  const head = line.slice(0, line.length - part.length)
  const relations = [...catalog.keys()]
  if (/^\.columns\s+$/.test(head) || BEFORE_RELATION.test(`${before} ${head}`))
    return [startingWith(part, relations), part]
  const used = relationsIn(`${before} ${line}${behind}`, catalog)
  const [, owner, name] = /^(\w+)\.(\w*)$/.exec(part) ?? []
  if (owner !== undefined) {
    const columns = catalog.get(used.get(owner.toLowerCase()) ?? owner.toLowerCase()) ?? []
    return [startingWith(name ?? '', columns).map(column => `${owner}.${column}`), part]
  }
  // As FROM comes after SELECT, what begins with a part is looked for everywhere.
  const named = used.size > 0 ? new Set(used.values()) : part === '' ? [] : relations
  const columns = [...named].flatMap(relation => catalog.get(relation) ?? [])
  return [startingWith(part, [...new Set(columns), ...relations, ...cased(part)]), part]
}

/** Relations that the statement names, by their names and aliases. */
function relationsIn(sql: string, catalog: Catalog): Map<string, string> {
  const used = new Map<string, string>()
  for (const [, name = '', alias] of sql.matchAll(IN_USE)) {
    const relation = name.toLowerCase()
    if (!catalog.has(relation)) continue
    used.set(relation, relation)
    if (alias) used.set(alias.toLowerCase(), relation)
  }
  return used
}

function startingWith(part: string, words: readonly string[]): string[] {
  return words.filter(word => word.toLowerCase().startsWith(part.toLowerCase()))
}

/** Returns the keywords in the user's case: in capitals, unless the part is in lower case. */
function cased(part: string): readonly string[] {
  return part !== '' && part === part.toLowerCase() ? KEYWORDS.map(word => word.toLowerCase()) : KEYWORDS
}

/** Returns whether SQL ends with a semicolon that is part of no string, name or comment. */
export function isComplete(sql: string): boolean {
  return maskTexts(sql).trimEnd().endsWith(';')
}
