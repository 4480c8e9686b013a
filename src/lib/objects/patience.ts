import { setMaxListeners } from 'node:events'
import { pipeline, type Readable, Transform } from 'node:stream'
import { InterruptedError } from '#src/lib/errors.ts'
import { RemoteError } from './objects.ts'

/** Besides the time for the bytes that went over the network. */
const ANSWER_MS = 60_000
/** Slower transfers are given up: 64 kB/s. */
const SLOWEST_BYTES_PER_MS = 64
const CHECK_MS = 100

export type PatienceOptions = {
  /** Aborted when the process is to end. */
  readonly signal?: AbortSignal
  /** Until then, and as long as something is written, requests are still sent: what a run has fetched can be sealed. */
  readonly graceMs?: number
  /** A store that answers nothing and takes nothing for so long is given up, although each request may take longer. */
  readonly silenceMs?: number
}

/** One request. */
export type Attempt = {
  /** Aborted if it takes too long, or the process is to end. */
  readonly signal: AbortSignal
  /** Notes that bytes were moved: the attempt may take longer by the time for them. */
  moved(bytes: number): void
}

/**
 * How long an object store, and the catalog of its tables, may keep this process waiting. A request ends if it transfers
 * too slowly, whatever the server sends in between; and soon after the process was asked to end.
 */
export class Patience {
  readonly #signal: AbortSignal | null
  readonly #graceMs: number
  readonly #silenceMs: number
  readonly #over = new AbortController()
  readonly #stop = () => this.#end()
  #writtenMs = 0
  #heardMs = 0
  #underWay = 0
  #timer: NodeJS.Timeout | null = null

  constructor({ signal, graceMs = 0, silenceMs = Number.POSITIVE_INFINITY }: PatienceOptions) {
    this.#signal = signal ?? null
    this.#graceMs = graceMs
    this.#silenceMs = silenceMs
    setMaxListeners(0, this.#over.signal)
    if (signal?.aborted) this.#end()
    else signal?.addEventListener('abort', this.#stop, { once: true })
  }

  /** Returns a signal that is aborted with an InterruptedError once no request may continue. */
  get ended(): AbortSignal {
    return this.#over.signal
  }

  /**
   * Carries out one request.
   * @param writes bytes that it sends; null if it only reads.
   * @param server as the subject of a sentence.
   * @throws InterruptedError if the process is to end. @throws Error named TimeoutError if it takes too long.
   */
  async attempt<T>(
    writes: number | null,
    work: (attempt: Attempt) => Promise<T>,
    server = 'The object store',
  ): Promise<T> {
    this.ended.throwIfAborted()
    const controller = new AbortController()
    setMaxListeners(0, controller.signal)
    const given = Promise.withResolvers<never>()
    const giveUp = (reason: unknown) => {
      given.reject(reason)
      controller.abort(reason)
    }
    const interrupt = () => giveUp(this.ended.reason)
    this.ended.addEventListener('abort', interrupt, { once: true })
    const startedMs = performance.now()
    if (this.#underWay === 0) this.#heardMs = startedMs
    this.#underWay += 1
    let bytes = writes ?? 0
    const timer = setInterval(() => {
      if (performance.now() - startedMs > ANSWER_MS + bytes / SLOWEST_BYTES_PER_MS) giveUp(late())
      if (performance.now() - this.#heardMs > this.#silenceMs)
        this.#over.abort(silent(server, this.#silenceMs))
    }, CHECK_MS)
    const moved = (more: number) => {
      this.#heardMs = performance.now()
      if (writes === null) bytes += more
      else this.#writtenMs = performance.now()
    }
    try {
      return await Promise.race([work({ signal: controller.signal, moved }), given.promise])
    } finally {
      if (writes !== null) this.#writtenMs = performance.now()
      this.#heardMs = performance.now()
      this.#underWay -= 1
      clearInterval(timer)
      this.ended.removeEventListener('abort', interrupt)
    }
  }

  /** Gives up what is still under way: no code waits for it any more, and it would keep the process alive. */
  close(): void {
    this.#signal?.removeEventListener('abort', this.#stop)
    if (this.#timer) clearInterval(this.#timer)
    this.#over.abort(new InterruptedError())
  }

  #end(): void {
    const stoppedMs = performance.now()
    const end = () => {
      if (performance.now() - Math.max(stoppedMs, this.#writtenMs) < this.#graceMs) return
      if (this.#timer) clearInterval(this.#timer)
      this.#over.abort(new InterruptedError())
    }
    if (this.#graceMs > 0) this.#timer = setInterval(end, CHECK_MS)
    end()
  }
}

function silent(server: string, ms: number): RemoteError {
  return new RemoteError(
    `${server} did not answer for ${ms / 1000} s. The next run tries again, and \`editais lake publish\` waits longer.`,
  )
}

function late(): Error {
  return Object.assign(
    new Error(`it took longer than ${ANSWER_MS / 1000} s, and sent too little in this time`),
    {
      name: 'TimeoutError',
    },
  )
}

/** Returns the same bytes, counted. Fails with `tooMany` after the last that may come, and when the attempt is given up. */
export function limitBody(
  body: Readable,
  { signal, moved }: Attempt,
  mostBytes: number,
  tooMany: () => Error,
): Readable {
  let bytes = 0
  const counted = new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.length
      moved(chunk.length)
      if (bytes > mostBytes) done(tooMany())
      else done(null, chunk)
    },
  })
  // Its reader gets the error.
  pipeline(body, counted, () => {})
  signal.addEventListener('abort', () => counted.destroy(signal.reason as Error), { once: true })
  return counted
}
