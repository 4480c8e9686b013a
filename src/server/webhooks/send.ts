import { closing } from '#src/lib/closing.ts'
import { isInOurWords, NetworkError } from '#src/lib/http/network_error.ts'

/** A receiver that takes longer counts as down. */
const TIMEOUT_MS = 15_000
/** The answer is not used: more is not read. */
const MAX_ANSWER_BYTES = 16 * 1024

type Message = {
  readonly id: string
  /** JSON. */
  readonly body: string
}

/** The outcome of a message. `clause` completes "the receiver …", and has no part of its address or answer. */
export type Sent = {
  readonly outcome: 'received' | 'failed' | 'unwanted'
  readonly clause: string
}

type SendOptions = {
  readonly url: string
  readonly secret: string
  readonly allowPrivate: boolean
  readonly now: Date
  readonly signal?: AbortSignal
}

/**
 * Posts a message, signed as Standard Webhooks says. Follows no redirect. Unless `allowPrivate`, only hosts on the
 * internet are connected to, and with TLS: a subscription must not reach what only this machine can.
 * @throws InterruptedError
 */
export async function sendMessage(message: Message, options: SendOptions): Promise<Sent> {
  const { url, secret, allowPrivate, now, signal } = options
  const { protocol, origin, hostname, pathname, search } = new URL(url)
  const [{ Webhook }, { openHttpClient }, { lookupPublic, mayBePublic }] = await Promise.all([
    import('standardwebhooks'),
    import('#src/lib/http/client.ts'),
    import('#src/lib/http/public_lookup.ts'),
  ])
  if (!allowPrivate && !mayBePublic(hostname)) return PRIVATE
  // It was subscribed while that was allowed.
  if (!allowPrivate && protocol !== 'https:') return PLAIN
  await using client = closing(
    openHttpClient({
      url: origin,
      connections: 1,
      silenceMs: TIMEOUT_MS,
      answerMs: TIMEOUT_MS,
      limit: `${TIMEOUT_MS / 1000} s`,
      maxBodyBytes: MAX_ANSWER_BYTES,
      isStatusEnough: true,
      ...(signal ? { signal } : {}),
      ...(allowPrivate ? {} : { lookup: lookupPublic }),
    }),
  )
  const headers = {
    'content-type': 'application/json',
    'webhook-id': message.id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign(message.id, now, message.body),
  }
  try {
    const path = pathname + search
    const { status } = await client.send({ method: 'POST', path, headers, body: message.body })
    return judge(status)
  } catch (error) {
    return explainSilence(error)
  }
}

const PRIVATE: Sent = {
  outcome: 'failed',
  clause: 'has a private address, which is not allowed (WEBHOOKS_ALLOW_PRIVATE)',
}

const PLAIN: Sent = {
  outcome: 'failed',
  clause: 'has an address without TLS, which is not allowed (WEBHOOKS_ALLOW_PRIVATE)',
}

function judge(status: number): Sent {
  if (status >= 200 && status < 300) return { outcome: 'received', clause: `accepted it (${status})` }
  if (status === 410) return { outcome: 'unwanted', clause: 'answered 410 Gone: it wants no more messages' }
  const hint = status >= 300 && status < 400 ? ', a redirect, which is not followed' : ''
  return { outcome: 'failed', clause: `refused it (${status}${hint})` }
}

/** Explains why the receiver gave no answer. @throws InterruptedError, and any error that is not of the network. */
function explainSilence(error: unknown): Sent {
  if (!(error instanceof NetworkError)) throw error
  if (error.code === 'EPRIVATE') return PRIVATE
  const code = error.code === null ? '' : ` (${error.code})`
  const why = isInOurWords(error) ? error.message : 'the connection failed'
  return { outcome: 'failed', clause: `gave no answer: ${why}${code}` }
}
