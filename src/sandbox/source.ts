export type NoticeFilter = {
  /** Null for every status. */
  readonly statuses: readonly string[] | null
  /** 1 to 200. */
  readonly limit: number
  /** 0 or more. */
  readonly offset: number
}

/**
 * What the API's routes read, one instance per company. Documents are returned as they are to be sent
 * (contract sections 2.1 and 2.2); `null` means unknown to this company.
 */
export interface NoticeSource {
  /** One page, most recent first, and the number of notices that match the filter. */
  list(filter: NoticeFilter): Promise<{ editais: unknown[]; total: number }>
  get(id: string): Promise<unknown | null>
  analysis(id: string): Promise<unknown | null>
}
