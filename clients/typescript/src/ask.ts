import { ConnectionFailed } from './errors.js'

export type Question = {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal | undefined
  /** The connection has failed if nothing arrives for this long. */
  readonly silenceMs: number
}

export type Answer = {
  /** Of the server, such as `https://editais.example.com`. */
  readonly origin: string
  readonly status: number
  readonly headers: Headers
  /**
   * The next bytes of the body; null after its end.
   * @throws ConnectionFailed, or the signal's reason.
   */
  read(): Promise<Uint8Array | null>
  /** Ends the connection if the body was not read to its end. */
  close(): void
}

/**
 * Sends one request. Redirects are not followed, so that its headers go to no other server.
 * @throws ConnectionFailed, or the signal's reason.
 */
export async function ask(fetch: typeof globalThis.fetch, question: Question): Promise<Answer> {
  const { url, headers, signal, silenceMs } = question
  signal?.throwIfAborted()
  const cut = new AbortController()
  const onAbort = () => cut.abort(signal?.reason)
  signal?.addEventListener('abort', onAbort)
  const close = () => {
    signal?.removeEventListener('abort', onAbort)
    cut.abort()
  }
  const unlessSilent = async <T>(next: Promise<T>): Promise<T> => {
    const silence = new Error(`nothing arrived for ${silenceMs / 1000} s`)
    const timer = setTimeout(() => cut.abort(silence), silenceMs)
    try {
      return await next
    } catch (error) {
      close()
      signal?.throwIfAborted()
      throw new ConnectionFailed(url.origin, error)
    } finally {
      clearTimeout(timer)
    }
  }
  const response = await unlessSilent(fetch(url, { headers, redirect: 'manual', signal: cut.signal }))
  const reader = response.body?.getReader()
  return {
    origin: url.origin,
    status: response.status,
    headers: response.headers,
    async read() {
      const { value } = reader ? await unlessSilent(reader.read()) : {}
      if (value === undefined) close()
      return value ?? null
    },
    close,
  }
}
