import type { Context } from 'hono'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'

/**
 * Returns a signal that is aborted when the answer is over, sent or not. The signal of a `Request` is no substitute: a clone of a
 * request holds its own only weakly, so after garbage collection no code learns that the client is gone.
 */
export function goneWith(context: Context): AbortSignal {
  const gone = new AbortController()
  const { outgoing } = (context.env ?? {}) as Partial<HttpBindings>
  outgoing?.once('close', () => gone.abort())
  return gone.signal
}
