import {
  type DuckDBConnection,
  type DuckDBDataChunk,
  DuckDBInstance,
  type DuckDBPreparedStatement,
  type DuckDBResult,
  type DuckDBResultReader,
  type DuckDBType,
  type DuckDBValue,
  ResultReturnType,
  StatementType,
} from '@duckdb/node-api'
import { type DurableStep, take } from '#src/lib/durable.ts'
import { messageOf } from '#src/lib/errors.ts'
import { identifier, literal } from './quoted.ts'
import { deadlinesFunction } from './reader.ts'
import { hidesFields, isNumeric, jsonWriter, textWriter, type WriteValue } from './values.ts'

/**
 * DuckDB's memory limit, the same for a company of any size: one segment of the raw log in flight, or the export of
 * a table. The rest spills to its temporary directory.
 */
const MEMORY_LIMIT = '300MB'
/** Small row groups are compressed and written as they fill, during fetching, not all at the end. */
const ROW_GROUP_ROWS = 16_384
/**
 * Size of the blocks of new files and of temporary tables, in bytes. Each column of a table takes one for its newest rows: with
 * DuckDB's 256 KiB, the file of thirty notices is three times as large, and a checkpoint costs half as much again.
 */
const BLOCK_BYTES = 32 * 1024
/** A checkpoint rewrites the last, partial row group of every table, so once per run is enough. */
const CHECKPOINT_THRESHOLD = '1TB'

/**
 * The amount that a stream prepares ahead: one chunk. DuckDB does not count the texts in it, so its own 1 MB can be thirty chunks
 * of any size. A larger buffer is no faster.
 */
const STREAM_BUFFER = '1KiB'
/** A second run keeps its rows in memory, outside the limit above. */
const MAX_SECOND_RUN_BYTES = 256 * 1024 * 1024

/** The library’s error for SQL of nothing but comments and semicolons. */
const NO_STATEMENT = 'Error in native callback'

type DatabaseOptions = { threads?: number; temporaryDirectory?: string }
type Parameters = Record<string, DuckDBValue>
/** Values by the names of their parameters; DuckDB casts them to the type that the SQL needs. */
export type Texts = Readonly<Record<string, string>>
export type Row = Record<string, unknown>
export type QueryResult = { readonly columns: string[]; readonly rows: Row[] }
/** How values are written: as plain text with null for NULL, or as JSON. */
export type Form = 'text' | 'json'
export type ResultColumn = { readonly name: string; readonly isNumeric: boolean }
/** The values of a row, in the order of the columns. */
export type WrittenRow = readonly (string | null)[]
/**
 * A result that is read once, while nothing else uses the database. The rows come in groups of at most 2,048, each read
 * when it is asked for; an error of the query may come with any of them.
 */
export type Stream = {
  readonly columns: readonly ResultColumn[]
  readonly rows: (form: Form) => AsyncIterable<Iterable<WrittenRow>>
}
/** DuckDB's names. */
export type StatementKind = keyof typeof StatementType

/** Returns whether DuckDB needs more memory than it may use, or has no room to spill what it holds. */
export function isMemoryError(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('Out of Memory Error')
}

/** Owns one DuckDB instance and its single connection. Statements run one after another. */
export class Database {
  readonly #instance: DuckDBInstance
  readonly #connection: DuckDBConnection
  #isInterrupted = false

  private constructor(instance: DuckDBInstance, connection: DuckDBConnection) {
    this.#instance = instance
    this.#connection = connection
  }

  /** Opens a database. @param path a file, or `:memory:`. */
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
      default_block_size: String(BLOCK_BYTES),
      ...(options.threads ? { threads: String(options.threads) } : {}),
      ...(options.temporaryDirectory ? { temp_directory: options.temporaryDirectory } : {}),
    })
    const connection = await instance.connect()
    await connection.run(`SET TimeZone = 'UTC'; SET streaming_buffer_size = '${STREAM_BUFFER}'`)
    // A database that is only read gets nothing that its queries could call.
    if (!options.readOnly) connection.registerScalarFunction(deadlinesFunction())
    return new Database(instance, connection)
  }

  /**
   * Opens a file without a write-ahead log. Commits since the last `CHECKPOINT` are lost if the process dies, and also
   * if the file is closed: then the file is as that checkpoint left it. Only for data that can be rebuilt.
   */
  static async openProjection(path: string, options: DatabaseOptions): Promise<Database> {
    const db = await Database.open(':memory:', options)
    try {
      await db.attachProjection(path, 'warehouse')
      await db.run('USE warehouse')
      await db.run(`SET checkpoint_threshold = '${CHECKPOINT_THRESHOLD}'`)
      await db.run('PRAGMA disable_checkpoint_on_shutdown')
      return db
    } catch (error) {
      db.close()
      throw error
    }
  }

  /** Attaches a file as `openProjection` opens it. */
  async attachProjection(path: string, name: string): Promise<void> {
    await this.run(
      `ATTACH ${literal(path)} AS ${identifier(name)} (RECOVERY_MODE no_wal_writes, ROW_GROUP_SIZE ${ROW_GROUP_ROWS})`,
    )
  }

  /**
   * Runs `work` in another file, which is complete and closed afterwards. Takes half the time of a separate instance.
   * No write-ahead log, as above.
   * @param storageVersion the earliest DuckDB that can read a new file, such as `v1.0.0`.
   */
  async inFile(path: string, work: () => Promise<void>, storageVersion?: string): Promise<void> {
    const version = storageVersion ? `, STORAGE_VERSION ${literal(storageVersion)}` : ''
    await this.#attached(`${literal(path)} AS file (RECOVERY_MODE no_wal_writes${version})`, async () => {
      await this.transaction(work)
      await this.run('CHECKPOINT file')
    })
  }

  /** Runs `work`, which only reads, in another file. */
  async withFile(path: string, work: () => Promise<void>): Promise<void> {
    await this.#attached(`${literal(path)} AS file (READ_ONLY)`, work)
  }

  async #attached(file: string, work: () => Promise<void>): Promise<void> {
    const { own } = await this.row<{ own: string }>('SELECT current_database() AS own')
    await this.run(`ATTACH ${file}`)
    try {
      await this.run('USE file')
      await work()
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

  /** Checkpoints no longer look for the best compression of each column. */
  async storeUncompressed(): Promise<void> {
    await this.run(`SET force_compression = 'uncompressed'`)
  }

  /** Returns all rows. Integers that a double holds exactly are numbers; times are Dates. */
  async rows<T extends Row>(sql: string, parameters?: Parameters): Promise<T[]> {
    return (await this.table(sql, parameters)).rows as T[]
  }

  /** Returns all rows, and the column names in order. */
  async table(sql: string, parameters?: Parameters): Promise<QueryResult> {
    return answerOf(await this.#connection.runAndReadAll(sql, parameters))
  }

  /**
   * Runs SQL that is not ours, and returns the result of its last statement.
   * @param admit called with each statement's kind before it runs; throws if it is not allowed.
   */
  async ask(sql: string, admit: (kind: StatementKind) => void, values: Texts = {}): Promise<Stream> {
    this.#isInterrupted = false
    const { run, last } = await this.#extract(sql, admit, values)
    for (let index = 0; index < last; index += 1) await run(index, statement => statement.run())
    // Read before the stream begins, because another statement would end it. Qualified: the SQL may have defined a macro.
    const { zone } = await this.row<{ zone: string }>(
      `SELECT system.main.current_setting('TimeZone') AS zone`,
    )
    const result = await run(last, statement => statement.stream())
    return streamOf(result, zone, async () => {
      if (this.#isInterrupted) return new Error('it was interrupted')
      // A statement can be taken from an extracted text only once.
      const again = await this.#extract(sql, admit, values)
      return await this.#whyFailed(() => again.run(last, statement => statement.run()))
    })
  }

  /** Ends what is asked with an error; the connection stays usable. */
  interrupt(): void {
    this.#isInterrupted = true
    this.#connection.interrupt()
  }

  /** Splits an SQL text into its statements. Each can be run once. */
  async #extract(sql: string, admit: (kind: StatementKind) => void, values: Texts) {
    const statements = await this.#connection.extractStatements(sql).catch(error => {
      throw messageOf(error) === NO_STATEMENT ? new Error('it has no statement') : error
    })
    const run = async <T>(index: number, how: (statement: DuckDBPreparedStatement) => Promise<T>) => {
      const statement = await statements.prepare(index)
      try {
        admit(StatementType[statement.statementType] as StatementKind)
        for (let place = 1; place <= statement.parameterCount; place += 1) {
          const value = values[statement.parameterName(place)]
          if (value !== undefined) statement.bindVarchar(place, value)
        }
        return await how(statement)
      } finally {
        statement.destroySync()
      }
    }
    return { run, last: statements.count - 1 }
  }

  /** Returns the error of a query that failed while its rows were read: that of a second run, because the library loses it. */
  async #whyFailed(runAgain: () => Promise<unknown>): Promise<Error> {
    const unknown = new Error('the database stopped in the middle, and does not report why')
    // What the SQL's own transaction made is gone with it, so the query would fail for another reason.
    const wasInTransaction = await this.run('ROLLBACK').then(
      () => true,
      () => false,
    )
    if (wasInTransaction) return unknown
    const mostBytes = process.memoryUsage.rss() + MAX_SECOND_RUN_BYTES
    let isTooLarge = false
    const watch = setInterval(() => {
      isTooLarge ||= process.memoryUsage.rss() > mostBytes
      if (isTooLarge) this.#connection.interrupt()
    }, 10)
    try {
      await runAgain()
      return unknown
    } catch (error) {
      return isTooLarge || !(error instanceof Error) ? unknown : error
    } finally {
      clearInterval(watch)
    }
  }

  /** Returns the only row of a query that always has one. */
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

function answerOf(reader: DuckDBResultReader): QueryResult {
  return { columns: reader.deduplicatedColumnNames(), rows: reader.getRowObjectsJS().map(withNumbers) }
}

/** Streams a result. @throws Error if the library cannot read the values of a column. */
function streamOf(result: DuckDBResult, timeZone: string, whyFailed: () => Promise<Error>): Stream {
  const types = result.columnTypes()
  const names = result.deduplicatedColumnNames()
  const hidden = names[types.findIndex(hidesFields)]
  if (hidden !== undefined) {
    throw new Error(`column "${hidden}" has fields without distinct names. Name them, as in {'a': 1, 'b': 2}`)
  }
  return {
    columns: names.map((name, index) => ({ name, isNumeric: isNumeric(types[index] as DuckDBType) })),
    rows: async function* (form) {
      const write = form === 'json' ? jsonWriter(timeZone) : textWriter(timeZone)
      for await (const chunk of result) yield rowsOf(chunk, types, write)
      // The library ends a failed stream like a complete one, but its result is no longer one.
      if (result.returnType === ResultReturnType.INVALID) throw await whyFailed()
    },
  }
}

/** Yields one row at a time, because the texts of a whole chunk can be large. */
function* rowsOf(
  chunk: DuckDBDataChunk,
  types: readonly DuckDBType[],
  write: WriteValue,
): Generator<WrittenRow> {
  const columns = types.map((type, index) => ({ type, vector: chunk.getColumnVector(index) }))
  for (let row = 0; row < chunk.rowCount; row += 1) {
    yield columns.map(({ type, vector }) => write(vector.getItem(row), type))
  }
}

function withNumbers(row: Row): Row {
  for (const [name, value] of Object.entries(row)) {
    if (typeof value === 'bigint' && Number.isSafeInteger(Number(value))) row[name] = Number(value)
  }
  return row
}
