import { randomUUID } from 'node:crypto'

export type Entity = { id: number } & Record<string, unknown>

/** All that an installation stores. */
export type State = {
  user: { email: string; password: string } | null
  setupToken: string | null
  sessions: Set<string>
  apiKeys: { id: number; name: string; key: string; admin: boolean }[]
  settings: Map<string, unknown>
  databases: Entity[]
  tables: (Entity & { fields: Entity[] })[]
  collections: Entity[]
  cards: Entity[]
  dashboards: Entity[]
}

/** A new installation, without a user. */
export function newState(): State {
  return {
    user: null,
    setupToken: randomUUID(),
    sessions: new Set(),
    apiKeys: [],
    settings: new Map(),
    // Every installation has these two.
    databases: [
      { id: 1, name: 'Sample Database', engine: 'h2', description: null, details: {}, is_sample: true },
    ],
    collections: [{ id: 1, name: 'Examples', description: null }],
    tables: [],
    cards: [],
    dashboards: [],
  }
}

/** An answer other than 200 or 204. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: number
  readonly body: unknown

  constructor(status: number, body: unknown) {
    super(String(status))
    this.status = status
    this.body = body
  }
}

/** @throws Refusal (404) */
export function find<T extends Entity>(those: readonly T[], id: number): T {
  const found = those.find(one => one.id === id)
  if (!found) throw new Refusal(404, 'Not found.')
  return found
}
