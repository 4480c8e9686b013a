import {
  type DuckDBConnection,
  DuckDBInstance,
  type DuckDBResultReader,
  type DuckDBValue,
  StatementType,
} from '@duckdb/node-api'
import { type DurableStep, take } from '#src/platform/durable.ts'

/**
 * DuckDB's share of the memory, the same for a company of any size: a segment of the raw log in flight, or
 * the export of a table. What does not fit goes to its temporary directory.
 */
const MEMORY_LIMIT = '300MB'
/** Small row groups are compressed and written as they fill, while fetching goes on, and not all at the end. */
const ROW_GROUP_ROWS = 16_384
/** A checkpoint writes the last, partial row group of every table again: once a run is enough. */
const CHECKPOINT_THRESHOLD = '1TB'

type DatabaseOptions = { threads?: number; temporaryDirectory?: string }
type Parameters = Record<string, DuckDBValue>
export type Row = Record<string, unknown>
export type Answer = { readonly columns: string[]; readonly rows: Row[] }
/** As DuckDB names them. */
export type StatementKind = keyof typeof StatementType

/** Owner of one DuckDB instance and its one connection; statements run one after another. */
export class Database {
  readonly #instance: DuckDBInstance
  readonly #connection: DuckDBConnection

  private constructor(instance: DuckDBInstance, connection: DuckDBConnection) {
    this.#instance = instance
    this.#connection = connection
  }

  /** @param path a file, or `:memory:`. */
  static async open(path: string, options: DatabaseOptions & { readOnly?: boolean } = {}): Promise<Database> {
    const instance = await DuckDBInstance.create(path, {
      access_mode: options.readOnly ? 'READ_ONLY' : 'AUTOMATIC',
      memory_limit: MEMORY_LIMIT,
      // Rely on nothing that is not linked in, and reach for nothing over the network.
      autoinstall_known_extensions: 'false',
      autoload_known_extensions: 'false',
      // No file of the user's home is read.
      allow_persistent_secrets: 'false',
      preserve_insertion_order: 'false',
      ...(options.threads ? { threads: String(options.threads) } : {}),
      ...(options.temporaryDirectory ? { temp_directory: options.temporaryDirectory } : {}),
    })
    const connection = await instance.connect()
    await connection.run(`SET TimeZone = 'UTC'`)
    return new Database(instance, connection)
  }

  /**
   * Opens a file without a write-ahead log: what was committed since the last `CHECKPOINT` is lost when
   * the process dies, and the file is then what that checkpoint left. Only for what can be made again.
   */
  static async openProjection(path: string, options: DatabaseOptions): Promise<Database> {
    const db = await Database.open(':memory:', options)
    try {
      await db.run(
        `ATTACH ${literal(path)} AS warehouse (RECOVERY_MODE no_wal_writes, ROW_GROUP_SIZE ${ROW_GROUP_ROWS})`,
      )
      await db.run('USE warehouse')
      await db.run(`SET checkpoint_threshold = '${CHECKPOINT_THRESHOLD}'`)
      return db
    } catch (error) {
      db.close()
      throw error
    }
  }

  /**
   * Works in another file, which is whole and closed afterwards: half the time of an instance of its own.
   * Without a write-ahead log, as above.
   */
  async inFile(path: string, work: () => Promise<void>): Promise<void> {
    const { own } = await this.row<{ own: string }>('SELECT current_database() AS own')
    await this.run(`ATTACH ${literal(path)} AS file (RECOVERY_MODE no_wal_writes)`)
    try {
      await this.run('USE file')
      await this.transaction(work)
      await this.run('CHECKPOINT file')
    } finally {
      await this.run(`USE ${identifier(own)}`)
      await this.run('DETACH file')
    }
  }

  async run(sql: string, parameters?: Parameters): Promise<void> {
    await this.#connection.run(sql, parameters)
  }

  /** How many cores its statements may use from now on. */
  async useThreads(threads: number): Promise<void> {
    await this.run(`SET threads = ${threads}`)
  }

  /** All rows; integers that a double holds exactly as numbers, times as Date. */
  async rows<T extends Row>(sql: string, parameters?: Parameters): Promise<T[]> {
    return (await this.table(sql, parameters)).rows as T[]
  }

  /** All rows, and the names of the columns in their order. */
  async table(sql: string, parameters?: Parameters): Promise<Answer> {
    return answerOf(await this.#connection.runAndReadAll(sql, parameters))
  }

  /**
   * The same of the last of several statements, for SQL that is not ours.
   * @param admit sees what each statement is before it runs, and throws if it must not.
   */
  async ask(sql: string, admit: (kind: StatementKind) => void): Promise<Answer> {
    const statements = await this.#connection.extractStatements(sql)
    let answer: Answer = { columns: [], rows: [] }
    for (let index = 0; index < statements.count; index += 1) {
      const statement = await statements.prepare(index)
      admit(StatementType[statement.statementType] as StatementKind)
      answer = answerOf(await statement.runAndReadAll())
    }
    return answer
  }

  /** The one row of a query that always has one. */
  async row<T extends Row>(sql: string, parameters?: Parameters): Promise<T> {
    const [row] = await this.rows<T>(sql, parameters)
    if (!row) throw new Error(`no row: ${sql}`)
    return row
  }

  /**
   * Commits what `work` did, or nothing of it.
   * @param step where what is committed outlives this process.
   */
  async transaction<T>(work: () => Promise<T>, step?: DurableStep): Promise<T> {
    await this.run('BEGIN TRANSACTION')
    try {
      const result = await work()
      const commit = () => this.run('COMMIT')
      await (step ? take(step, { kind: 'commit' }, commit) : commit())
      return result
    } catch (error) {
      // A failed COMMIT has rolled back already.
      await this.run('ROLLBACK').catch(() => {})
      throw error
    }
  }

  close(): void {
    this.#connection.closeSync()
    this.#instance.closeSync()
  }
}

function answerOf(reader: DuckDBResultReader): Answer {
  return { columns: reader.deduplicatedColumnNames(), rows: reader.getRowObjectsJS().map(withNumbers) }
}

function withNumbers(row: Row): Row {
  for (const [name, value] of Object.entries(row)) {
    if (typeof value === 'bigint' && Number.isSafeInteger(Number(value))) row[name] = Number(value)
  }
  return row
}

/** An SQL string literal, for the places where a statement takes no parameter (paths, comments). */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/** An SQL identifier. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
