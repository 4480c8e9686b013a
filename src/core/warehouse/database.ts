import {
  DuckDBArrayType,
  type DuckDBBlobValue,
  type DuckDBConnection,
  type DuckDBDataChunk,
  DuckDBDateValue,
  DuckDBInstance,
  DuckDBListType,
  DuckDBMapType,
  type DuckDBMapValue,
  type DuckDBPreparedStatement,
  type DuckDBResult,
  type DuckDBResultReader,
  DuckDBStructType,
  DuckDBTimestampMillisecondsValue,
  DuckDBTimestampNanosecondsValue,
  DuckDBTimestampSecondsValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  type DuckDBType,
  DuckDBTypeId,
  DuckDBUnionType,
  type DuckDBUnionValue,
  type DuckDBValue,
  type DuckDBValueConverter,
  type Json,
  JsonDuckDBValueConverter,
  ResultReturnType,
  StatementType,
} from '@duckdb/node-api'
import { type DurableStep, take } from '#src/lib/durable.ts'
import { getMessage } from '#src/lib/errors.ts'
import { identifier, literal } from './quoted.ts'
import { createDeadlinesFunction } from './reader.ts'

/** The text of one value; null only for a NULL that the form writes as nothing. */
type WriteValue = (value: DuckDBValue, type: DuckDBType) => string | null
type Convert = DuckDBValueConverter<Json>

const MICROS_PER_SECOND = 1_000_000n
/** Temporal's instants end a little before DuckDB's. No offset changes out there. */
const MAX_INSTANT_MICROS = 8_640_000_000_000_000_000n
/** DuckDB writes a DOUBLE below or above these powers of ten with an exponent. */
const PLAIN_POWERS = { least: -4, most: 15 }
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).toUpperCase().padStart(2, '0'))
/** Every FLOAT can be read back from this many digits. */
const MAX_FLOAT_DIGITS = 9

/**
 * Values as `CAST(x AS VARCHAR)` writes them, but nested values as JSON.
 * @param timeZone of the session, for TIMESTAMPTZ: an IANA name.
 */
function textWriter(timeZone: string): WriteValue {
  const convert = converterIn(timeZone)
  return (value, type) => {
    if (value === null || typeof value === 'string') return value
    const converted = convert(value, type, convert)
    if (converted === null || typeof converted === 'string') return converted
    return JSON.stringify(converted)
  }
}

/**
 * Values as JSON: numbers with all their digits, booleans and NULL as such, nested values and values of the type JSON
 * as arrays and objects. All others are strings with the same text as above, also the numbers `nan` and `inf`.
 */
function jsonWriter(timeZone: string): WriteValue {
  const convert = converterIn(timeZone)
  return (value, type) => JSON.stringify(convert(value, type, convert))
}

function findKind({ typeId }: DuckDBType): ResultColumn['kind'] {
  if (NUMERIC.includes(typeId)) return 'number'
  if (typeId === DuckDBTypeId.DATE) return 'day'
  if (typeId === DuckDBTypeId.TIMESTAMP) return 'time'
  return typeId === DuckDBTypeId.BOOLEAN ? 'boolean' : 'other'
}

/** Returns true for the type of `row(1, 2)`: of fields without distinct names, the library would read only the last. */
function hidesFields(type: DuckDBType): boolean {
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType) return hidesFields(type.valueType)
  if (type instanceof DuckDBMapType) return hidesFields(type.keyType) || hidesFields(type.valueType)
  if (type instanceof DuckDBUnionType) return type.memberTypes.some(hidesFields)
  if (!(type instanceof DuckDBStructType)) return false
  const names = new Set(type.entryNames)
  return names.size < type.entryCount || names.has('__proto__') || type.entryTypes.some(hidesFields)
}

/** Creates a converter to JSON, like the library's except for the types below. */
function converterIn(timeZone: string): Convert {
  const own: Partial<Record<DuckDBTypeId, Convert>> = { ...OWN }
  const offsetSeconds = loadOffsets(timeZone)
  own[DuckDBTypeId.TIMESTAMP_TZ] = value =>
    value instanceof DuckDBTimestampTZValue ? zonedText(value, offsetSeconds) : null
  return (value, type, convert) =>
    value === null ? null : (own[type.typeId] ?? JsonDuckDBValueConverter)(value, type, convert)
}

const exact: Convert = value => exactNumber(String(value))
const time: Convert = value => timeText(value)

/** The library writes these as text, as an object of its own, or with digits that are not DuckDB's. */
const OWN: Partial<Record<DuckDBTypeId, Convert>> = {
  [DuckDBTypeId.BIGINT]: exact,
  [DuckDBTypeId.UBIGINT]: exact,
  [DuckDBTypeId.HUGEINT]: exact,
  [DuckDBTypeId.UHUGEINT]: exact,
  [DuckDBTypeId.BIGNUM]: exact,
  [DuckDBTypeId.DECIMAL]: exact,
  [DuckDBTypeId.FLOAT]: value => floatingNumber(shortestFloat(Number(value))),
  [DuckDBTypeId.DOUBLE]: value => floatingNumber(Number(value)),
  [DuckDBTypeId.DATE]: time,
  [DuckDBTypeId.TIMESTAMP]: time,
  [DuckDBTypeId.TIMESTAMP_S]: time,
  [DuckDBTypeId.TIMESTAMP_MS]: time,
  [DuckDBTypeId.TIMESTAMP_NS]: time,
  [DuckDBTypeId.BLOB]: value => blobText((value as DuckDBBlobValue).bytes),
  [DuckDBTypeId.INTERVAL]: value => String(value),
  [DuckDBTypeId.VARCHAR]: (value, { alias }) => (alias === 'JSON' ? parsed(String(value)) : String(value)),
  [DuckDBTypeId.MAP]: (value, type, convert) =>
    mapObject(value as DuckDBMapValue, type as DuckDBMapType, convert),
  [DuckDBTypeId.UNION]: (value, type, convert) => {
    const { tag, value: member } = value as DuckDBUnionValue
    return { [tag]: convert(member, (type as DuckDBUnionType).memberTypeForTag(tag), convert) }
  },
}

/** Writes bytes as text (`\xAAb`): all but printable ASCII in hexadecimal, and the backslash, which the library leaves. */
function blobText(bytes: Uint8Array): string {
  const texts = Array.from(bytes, byte => {
    const character = String.fromCharCode(byte)
    return /[ -~]/.test(character) && !/["'\\]/.test(character) ? character : `\\x${HEX[byte]}`
  })
  return texts.join('')
}

/** Converts a map to an object (`{"k":1}`); keys that are not text as their text. */
function mapObject(
  { entries }: DuckDBMapValue,
  { keyType, valueType }: DuckDBMapType,
  convert: Convert,
): Json {
  const keyText = (key: DuckDBValue) => {
    const converted = convert(key, keyType, convert)
    return typeof converted === 'string' ? converted : JSON.stringify(converted)
  }
  return Object.fromEntries(
    entries.map(({ key, value }) => [keyText(key), convert(value, valueType, convert)]),
  )
}

const NUMERIC: readonly DuckDBTypeId[] = [
  ...[DuckDBTypeId.TINYINT, DuckDBTypeId.SMALLINT, DuckDBTypeId.INTEGER, DuckDBTypeId.BIGINT],
  ...[DuckDBTypeId.UTINYINT, DuckDBTypeId.USMALLINT, DuckDBTypeId.UINTEGER, DuckDBTypeId.UBIGINT],
  ...[DuckDBTypeId.HUGEINT, DuckDBTypeId.UHUGEINT, DuckDBTypeId.BIGNUM],
  ...[DuckDBTypeId.DECIMAL, DuckDBTypeId.FLOAT, DuckDBTypeId.DOUBLE],
]

function exactNumber(text: string): Json {
  const number = Number(text)
  return String(number) === text ? number : JSON.rawJSON(text)
}

/** Writes a floating-point number: `1.0`, `0.1`, `1e+20`, `1.5e-07`; a string for `nan` and `inf`. */
function floatingNumber(number: number): Json {
  if (Number.isNaN(number)) return 'nan'
  if (!Number.isFinite(number)) return number > 0 ? 'inf' : '-inf'
  const [digits = '', power = ''] = number.toExponential().split('e')
  const isPlain = number === 0 || (Number(power) >= PLAIN_POWERS.least && Number(power) <= PLAIN_POWERS.most)
  if (!isPlain) return JSON.rawJSON(`${digits}e${power.replace(/^([+-])(\d)$/, '$10$2')}`)
  if (!Number.isInteger(number)) return number
  return JSON.rawJSON(`${Object.is(number, -0) ? '-0' : number}.0`)
}

/** Returns the number with the fewest digits that is this FLOAT: 0.1 instead of 0.10000000149011612. */
function shortestFloat(float: number): number {
  for (let digits = 1; digits < MAX_FLOAT_DIGITS; digits += 1) {
    const shorter = Number(float.toPrecision(digits))
    if (Math.fround(shorter) === float) return shorter
  }
  return Number(float.toPrecision(MAX_FLOAT_DIGITS))
}

function timeText(value: DuckDBValue): string {
  if (value instanceof DuckDBDateValue) return finiteText(value, value.days)
  if (value instanceof DuckDBTimestampValue) return finiteText(value, value.micros)
  if (value instanceof DuckDBTimestampSecondsValue) return finiteText(value, value.seconds)
  if (value instanceof DuckDBTimestampMillisecondsValue) return finiteText(value, value.millis)
  if (value instanceof DuckDBTimestampNanosecondsValue) return finiteText(value, value.nanos)
  return String(value)
}

/** Returns a time as text, also infinities and 1 BC: the library does not know all infinities, and calls that year 0. */
function finiteText(value: { readonly isFinite: boolean }, units: number | bigint): string {
  if (!value.isFinite) return units > 0 ? 'infinity' : '-infinity'
  return String(value).replace(/^0000(-\d\d-\d\d)/, '0001$1 (BC)')
}

type OffsetSeconds = (micros: bigint) => number

/** Offsets of a zone by instant. A zone that only DuckDB knows counts as UTC. */
function loadOffsets(timeZone: string): OffsetSeconds {
  const zonedAt = (epochMicros: bigint) =>
    Temporal.Instant.fromEpochNanoseconds(epochMicros * 1000n).toZonedDateTimeISO(timeZone)
  try {
    zonedAt(0n)
  } catch {
    return () => 0
  }
  if (zonedAt(0n).timeZoneId === 'UTC') return () => 0
  return micros => {
    const limited =
      micros > MAX_INSTANT_MICROS
        ? MAX_INSTANT_MICROS
        : micros < -MAX_INSTANT_MICROS
          ? -MAX_INSTANT_MICROS
          : micros
    return zonedAt(limited).offsetNanoseconds / 1e9
  }
}

/** Writes local time and offset: `2026-12-10 09:00:00-03`. */
function zonedText(value: DuckDBTimestampTZValue, offsetSeconds: OffsetSeconds): string {
  if (!value.isFinite) return finiteText(value, value.micros)
  const seconds = offsetSeconds(value.micros)
  const local = new DuckDBTimestampValue(value.micros + BigInt(seconds) * MICROS_PER_SECOND)
  // DuckDB leaves out the seconds that offsets had before 1914.
  const minutes = Math.trunc(Math.abs(seconds) / 60)
  const [hour, minute] = [Math.trunc(minutes / 60), minutes % 60].map(part => String(part).padStart(2, '0'))
  const offset = `${seconds < 0 ? '-' : '+'}${hour}${minute === '00' ? '' : `:${minute}`}`
  return `${finiteText(local, local.micros)}${offset}`
}

/**
 * Parses JSON text into a value with all digits of its numbers; returns a string if it is only JSON to DuckDB, such as `NaN` or
 * `[1,]`.
 */
function parsed(text: string): Json {
  try {
    return JSON.parse(text, (_name, value, { source }) =>
      typeof value === 'number' && source !== undefined ? exactNumber(source) : value,
    ) as Json
  } catch {
    return text
  }
}

/**
 * DuckDB's memory limit, the same for a company of any size: one segment of the raw log in flight, or the export of
 * a table. The rest spills to its temporary directory.
 */
const MEMORY_LIMIT = '300MB'
/** A commit that fills some writes them at once, so they are small; rows of smaller commits wait in memory for a checkpoint. */
const ROW_GROUP_ROWS = 16_384
/**
 * Size of the blocks of new files and of temporary tables, in bytes. Each column of a table takes one for its newest rows: with
 * DuckDB's 256 KiB, the file of thirty notices is three times as large, and a checkpoint costs half as much again.
 */
const BLOCK_BYTES = 32 * 1024
/** A checkpoint rewrites the last, partial row group of every table, so only the program makes them. */
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
/** `time` is without a zone. */
export type ResultColumn = {
  readonly name: string
  readonly kind: 'number' | 'day' | 'time' | 'boolean' | 'other'
}
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
    if (!options.readOnly) connection.registerScalarFunction(createDeadlinesFunction())
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

  /** Makes all commits durable. Meanwhile other statements may read, but not write. */
  async checkpoint(): Promise<void> {
    const { own } = await this.row<{ own: string }>('SELECT current_database() AS own')
    const beside = await this.#instance.connect()
    try {
      await beside.run(`CHECKPOINT ${identifier(own)}`)
    } finally {
      beside.closeSync()
    }
  }

  /** Returns the bytes of rows that are in memory or spilled: of temporary tables, and those that the next checkpoint writes. */
  async measureRowsInMemory(): Promise<number> {
    const { bytes } = await this.row<{ bytes: number }>(
      `SELECT coalesce(sum(memory_usage_bytes + temporary_storage_bytes), 0)::DOUBLE AS bytes
       FROM duckdb_memory() WHERE tag IN ('IN_MEMORY_TABLE', 'OVERFLOW_STRINGS')`,
    )
    return bytes
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
    return makeAnswer(await this.#connection.runAndReadAll(sql, parameters))
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
    return makeStream(result, zone, async () => {
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
      throw getMessage(error) === NO_STATEMENT ? new Error('it has no statement') : error
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

function makeAnswer(reader: DuckDBResultReader): QueryResult {
  return { columns: reader.deduplicatedColumnNames(), rows: reader.getRowObjectsJS().map(withNumbers) }
}

/** Streams a result. @throws Error if the library cannot read the values of a column. */
function makeStream(result: DuckDBResult, timeZone: string, whyFailed: () => Promise<Error>): Stream {
  const types = result.columnTypes()
  const names = result.deduplicatedColumnNames()
  const hidden = names[types.findIndex(hidesFields)]
  if (hidden !== undefined) {
    throw new Error(`column "${hidden}" has fields without distinct names. Name them, as in {'a': 1, 'b': 2}`)
  }
  return {
    columns: names.map((name, index) => ({ name, kind: findKind(types[index] as DuckDBType) })),
    rows: async function* (form) {
      const write = form === 'json' ? jsonWriter(timeZone) : textWriter(timeZone)
      for await (const chunk of result) yield writeRows(chunk, types, write)
      // The library ends a failed stream like a complete one, but its result is no longer one.
      if (result.returnType === ResultReturnType.INVALID) throw await whyFailed()
    },
  }
}

/** Yields one row at a time, because the texts of a whole chunk can be large. */
function* writeRows(
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
