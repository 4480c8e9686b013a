import {
  type DuckDBConnection,
  DuckDBInstance,
  type DuckDBResultReader,
  type DuckDBValue,
  StatementType,
} from '@duckdb/node-api'
import { type DurableStep, take } from '#src/platform/durable.ts'
import { identifier, literal } from './quoted.ts'

/**
 * DuckDB's memory limit, the same for a company of any size: one segment of the raw log in flight, or the export of
 * a table. The rest spills to its temporary directory.
 */
const MEMORY_LIMIT = '300MB'
/** Small row groups are compressed and written as they fill, during fetching, not all at the end. */
const ROW_GROUP_ROWS = 16_384
/** A checkpoint rewrites the last, partial row group of every table, so once per run is enough. */
const CHECKPOINT_THRESHOLD = '1TB'

type DatabaseOptions = { threads?: number; temporaryDirectory?: string }
type Parameters = Record<string, DuckDBValue>
export type Row = Record<string, unknown>
export type Answer = { readonly columns: string[]; readonly rows: Row[] }
/** DuckDB's names. */
export type StatementKind = keyof typeof StatementType

/** Owns one DuckDB instance and its single connection. Statements run one after another. */
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
      // Use only what is linked in, and nothing over the network.
      autoinstall_known_extensions: 'false',
      autoload_known_extensions: 'false',
      // Do not read files in the user's home.
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
   * Opens a file without a write-ahead log. Commits since the last `CHECKPOINT` are lost if the process dies, and also
   * if the file is closed: then the file is as that checkpoint left it. Only for data that can be rebuilt.
   */
  static async openProjection(path: string, options: DatabaseOptions): Promise<Database> {
    const db = await Database.open(':memory:', options)
    try {
      await db.run(
        `ATTACH ${literal(path)} AS warehouse (RECOVERY_MODE no_wal_writes, ROW_GROUP_SIZE ${ROW_GROUP_ROWS})`,
      )
      await db.run('USE warehouse')
      await db.run(`SET checkpoint_threshold = '${CHECKPOINT_THRESHOLD}'`)
      await db.run('PRAGMA disable_checkpoint_on_shutdown')
      return db
    } catch (error) {
      db.close()
      throw error
    }
  }

  /**
   * Runs `work` in another file, which is complete and closed afterwards. Takes half the time of a separate instance.
   * No write-ahead log, as above.
   * @param storageVersion the earliest DuckDB that can read a new file, such as `v1.0.0`.
   */
  async inFile(path: string, work: () => Promise<void>, storageVersion?: string): Promise<void> {
    const { own } = await this.row<{ own: string }>('SELECT current_database() AS own')
    const version = storageVersion ? `, STORAGE_VERSION ${literal(storageVersion)}` : ''
    await this.run(`ATTACH ${literal(path)} AS file (RECOVERY_MODE no_wal_writes${version})`)
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

  /** Sets how many cores statements may use from now on. */
  async useThreads(threads: number): Promise<void> {
    await this.run(`SET threads = ${threads}`)
  }

  /** All rows. Integers that a double holds exactly are numbers; times are Dates. */
  async rows<T extends Row>(sql: string, parameters?: Parameters): Promise<T[]> {
    return (await this.table(sql, parameters)).rows as T[]
  }

  /** All rows, and the column names in order. */
  async table(sql: string, parameters?: Parameters): Promise<Answer> {
    return answerOf(await this.#connection.runAndReadAll(sql, parameters))
  }

  /**
   * Runs SQL that is not ours, and returns the rows and columns of its last statement.
   * @param admit called with each statement's kind before it runs; throws if it is not allowed.
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

  /** The only row of a query that always returns one. */
  async row<T extends Row>(sql: string, parameters?: Parameters): Promise<T> {
    const [row] = await this.rows<T>(sql, parameters)
    if (!row) throw new Error(`no row: ${sql}`)
    return row
  }

  /**
   * Commits everything that `work` did, or nothing.
   * @param step the durable step, if the commit outlives this process.
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
