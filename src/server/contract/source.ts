export type NoticeFilter = {
  /** Null for every status. */
  readonly statuses: readonly string[] | null
  /** 1 to 200. */
  readonly limit: number
  /** 0 or more. */
  readonly offset: number
}

/** A document ready to send: JSON, unless `type` says otherwise. */
export class Json {
  readonly bytes: Uint8Array
  /** Identifies these bytes; for `ETag`. */
  readonly tag: string
  readonly type: string

  constructor(bytes: Uint8Array, tag: string, type = 'application/json') {
    this.bytes = bytes
    this.tag = tag
    this.type = type
  }
}

type RefusalStatus = 400 | 401 | 403 | 404 | 410 | 429 | 503

/**
 * Why a request is not answered: the data is not available yet (503), there are too many requests (429), or, below
 * `/api/v1/mirror`, what it asks for is wrong (400), no longer (401) or not allowed (403), unknown (404) or no longer there
 * (410).
 */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: RefusalStatus
  /** Null if unknown. */
  readonly retryAfterSeconds: number | null
  /** The `error` code of the answer; null for the default code of the status. */
  readonly code: string | null

  constructor(
    status: RefusalStatus,
    message: string,
    retryAfterSeconds: number | null = null,
    code: string | null = null,
  ) {
    super(message)
    this.status = status
    this.retryAfterSeconds = retryAfterSeconds
    this.code = code
  }
}

/**
 * The data source of the API's routes, one instance per company. It returns documents in the form to send
 * (docs/contract.md#notice and docs/contract.md#analysis), as values or as JSON; `null` means unknown to this company. Each
 * method may throw `Refusal`.
 */
export interface NoticeSource {
  /** Lists one page, most recent first, and the number of matching notices; or all of docs/contract.md#page as JSON. */
  list(filter: NoticeFilter): Promise<{ editais: readonly unknown[]; total: number } | Json>
  get(id: string): Promise<unknown | Json | null>
  analysis(id: string): Promise<unknown | Json | null>
}
