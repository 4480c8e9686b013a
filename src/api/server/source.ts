export type NoticeFilter = {
  /** Null for every status. */
  readonly statuses: readonly string[] | null
  /** 1 to 200. */
  readonly limit: number
  /** 0 or more. */
  readonly offset: number
}

/** A document that is ready to be sent: JSON, unless it says what else. */
export class Json {
  readonly bytes: Uint8Array
  /** Names these bytes; for `ETag`. */
  readonly tag: string
  readonly type: string

  constructor(bytes: Uint8Array, tag: string, type = 'application/json') {
    this.bytes = bytes
    this.tag = tag
    this.type = type
  }
}

/** No answer now, but before long: there is nothing to answer with yet (503), or too much is asked (429). */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: 429 | 503
  /** Null where nobody knows. */
  readonly retryAfterSeconds: number | null
  /** What `error` of its answer says; null for the usual word for the status. */
  readonly code: string | null

  constructor(
    status: 429 | 503,
    message: string,
    retryAfterSeconds: number | null,
    code: string | null = null,
  ) {
    super(message)
    this.status = status
    this.retryAfterSeconds = retryAfterSeconds
    this.code = code
  }
}

/**
 * What the API's routes read, one instance per company. Documents are returned as they are to be sent
 * (docs/contract.md#notice, docs/contract.md#analysis), as values or as JSON; `null` means unknown to this company.
 * Each may throw `Refusal`.
 */
export interface NoticeSource {
  /** One page, most recent first, and how many notices match the filter; or all of docs/contract.md#page as JSON. */
  list(filter: NoticeFilter): Promise<{ editais: readonly unknown[]; total: number } | Json>
  get(id: string): Promise<unknown | Json | null>
  analysis(id: string): Promise<unknown | Json | null>
}
