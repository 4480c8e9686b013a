import type { Sandbox } from '#src/sandbox/server.ts'
import type { RouteKind } from '#src/server/contract/routes.ts'

/** Requests that the sandbox has not answered yet. */
export type Held = {
  /** Resolves when the expected number of requests are waiting. */
  readonly reached: Promise<void>
  /** Answers these and all later requests. */
  release(): void
}

/**
 * Answers some requests of a kind and holds later ones until they are released, so a test decides how long a run
 * takes. When as many are held as the client has connections, it has received all earlier answers.
 */
export function holdAfter(
  { faults }: Pick<Sandbox, 'faults'>,
  kind: RouteKind,
  options: { passing: number; company?: string | readonly string[]; waiting?: number },
): Held {
  const { passing, company, waiting = 8 } = options
  const reached = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  let asked = 0
  faults.onRequest = async request => {
    if (request.kind !== kind) return
    if (company !== undefined && ![company].flat().includes(request.company ?? '')) return
    asked += 1
    if (asked >= passing + waiting) reached.resolve()
    if (asked > passing) await released.promise
  }
  return {
    reached: reached.promise,
    release() {
      faults.onRequest = undefined
      released.resolve()
    },
  }
}
