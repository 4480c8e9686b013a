import { connect } from 'node:net'
import type { Logger } from 'pino'
import { messageOf } from '#src/lib/errors.ts'
import type { RedisClient } from './redis.ts'
import { probe } from './redis_probe.ts'
import { isHangUp, isLostJob, lostConnection, type RedisProblem, redisProblem } from './redis_problem.ts'

const WITHIN_MS = 1000

/**
 * Reads what the server sends on connect, before any command. A Redis in protected mode, or with too many clients,
 * sends the reason and hangs up; a client that is writing then loses the connection before it has read the reason.
 * @returns the first line without its `-`; null if the server sends no such line.
 */
async function refusalAtTheDoor(url: string): Promise<string | null> {
  const { hostname, port, protocol } = new URL(url)
  if (protocol !== 'redis:') return null
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 6379) })
  socket.setTimeout(WITHIN_MS, () => socket.destroy())
  let greeting = ''
  try {
    for await (const bytes of socket) {
      greeting += String(bytes)
      if (greeting.includes('\n')) break
    }
  } catch {
    // The server hung up or is away: use what it sent.
  } finally {
    socket.destroy()
  }
  return /^-(.+?)\r?\n/.exec(greeting)?.[1] ?? null
}

/** A Redis that refuses commands is probed again after this. */
const PROBE_MS = 2000
/** An error is logged again if it has not occurred for this long. */
const LOG_AGAIN_MS = 60_000
/** A cluster whose node failed has a problem if it does not answer for this long. */
const DOUBT_MS = 2000

type Watched = {
  readonly redis: RedisClient
  readonly address: string
  readonly prefix: string
  readonly log: Logger
}

/** Whether Redis can be used, from the events of one connection, the errors of all, and probes. Logs each change. */
export class RedisStatus {
  readonly #watched: Watched
  readonly #once: ReturnType<typeof createOnce>
  #problem: RedisProblem | null = null
  #timer: NodeJS.Timeout | null = null
  #isLogged = false
  #isOver = false
  #probing: Promise<void> | null = null
  #isAtTheDoor = false
  /** A refusal that a running probe may explain. */
  #vague: RedisProblem | null = null
  #wasEverReady = false

  constructor(watched: Watched) {
    this.#watched = watched
    this.#once = createOnce(watched.log)
  }

  /** Returns why Redis cannot be used now; null if no problem is known. */
  get problem(): RedisProblem | null {
    return this.#problem
  }

  /** Notes that the connection is ready for commands. */
  connected(): void {
    this.#wasEverReady = true
    // Wait before probing a Redis that refuses: each refusal by a replica makes us reconnect.
    if (this.#problem?.kind === 'refused') this.#refused(this.#problem)
    else void this.#check()
  }

  /** Notes that the connection was lost, or could not be made. @param address the node of a cluster that the error is about. */
  lost(
    error: unknown,
    { wasReady, address = this.#watched.address }: { wasReady: boolean; address?: string },
  ): void {
    const found = lostConnection(error, address, { wasEverReady: this.#wasEverReady })
    if (!isHangUp(error)) this.#became(found)
    // A problem already known explains more than the hang-up does.
    else if (this.#problem === null || this.#problem.kind === 'away') {
      this.#problem = found
      // If the connection was ready, the next attempt shows the cause.
      if (!wasReady) void this.#explainHangUp(found, address)
    }
  }

  /**
   * Notes that a node of a cluster failed. That is a problem only if our keys are on it and no replica takes over, so only if a
   * probe is not answered soon.
   */
  doubt(error: unknown, address: string): void {
    const timer = setTimeout(() => {
      if (this.#problem === null) this.#became(lostConnection(error, address, { wasEverReady: true }))
    }, DOUBT_MS)
    void this.#check().finally(() => clearTimeout(timer))
  }

  /** Notes an error from BullMQ or from one of our commands. */
  note(error: unknown): void {
    const found = redisProblem(error, this.#watched.address)
    // Redis does not name the refused command of a script. The probe does, even if it is already running.
    if (found?.kind === 'refused' && found.isVague) {
      if (this.#probing) this.#vague ??= found
      else void this.#check(found)
    } else if (found?.kind === 'refused') this.#refused(found)
    // Our own connection reports the other connection errors; BullMQ's connections only repeat them.
    else if (found === null) this.#once.error(describe(error), isLostJob(error) ? 'lost jobs' : undefined)
  }

  /** Ends probes and log lines. */
  end(): void {
    this.#isOver = true
    if (this.#timer) clearTimeout(this.#timer)
  }

  #became(next: RedisProblem): void {
    if (this.#isOver) return
    if (!this.#isLogged) this.#once.forget()
    this.#isLogged = true
    this.#problem = next
    // One outage causes several different errors in a row.
    if (next.kind === 'away') this.#once.error(`${next.sentence} Retrying until it answers.`, next.kind)
    else this.#once.error(next.sentence, next.sentence)
  }

  #well(): void {
    if (this.#isLogged) this.#watched.log.info('Redis answers again.')
    this.#problem = null
    this.#isLogged = false
  }

  #refused(found: RedisProblem): void {
    this.#became(found)
    if (this.#timer || this.#isOver) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      void this.#check()
    }, PROBE_MS)
  }

  /**
   * Probes Redis with a write, which alone shows that Redis can be used: a replica or a full Redis answers reads too.
   * @param otherwise the problem of a command, reported if the probe finds none.
   */
  async #check(otherwise: RedisProblem | null = null): Promise<void> {
    // One probe at a time: a probe that a replica refused is resent to the new master.
    if (this.#probing) return await this.#probing
    if (this.#isOver || this.#watched.redis.status !== 'ready') return
    this.#vague = otherwise
    this.#probing = this.#probe().finally(() => {
      this.#probing = null
    })
    await this.#probing
  }

  async #probe(): Promise<void> {
    const { redis, prefix, address } = this.#watched
    try {
      await probe(redis, prefix)
      if (this.#vague) this.#refused(this.#vague)
      else this.#well()
    } catch (error) {
      const found = redisProblem(error, address)
      if (found?.kind === 'refused') this.#refused(found)
      else this.note(error)
    }
  }

  async #explainHangUp(found: RedisProblem, address: string): Promise<void> {
    const { redis } = this.#watched
    if (this.#isAtTheDoor) return
    this.#isAtTheDoor = true
    const text = await refusalAtTheDoor(address)
    this.#isAtTheDoor = false
    // Meanwhile another attempt may have connected, or found another problem.
    if (this.#problem?.kind === 'away' && redis.status !== 'ready')
      this.#became(text === null ? found : lostConnection(new Error(text), address))
  }
}

function describe(error: unknown): string {
  const text = messageOf(error)
  if (error instanceof SyntaxError)
    return 'A job in Redis is not JSON, so no worker can do it. Another program changed it. Other jobs go on.'
  if (!isLostJob(error)) return `Queue error: ${text}`
  const job = /job (\S+?)\.?(?:\s|$)/.exec(text)?.[1] ?? ''
  return `This worker lost job ${job}: Redis was away for longer than JOB_LOCK_MS, or lost its data. What the run fetched is kept; the next run continues from there.`
}

/** Logs an error again only if it has not occurred for a minute. */
function createOnce(log: Logger) {
  const loggedAtMs = new Map<string, number>()
  return {
    error(message: string, about = message) {
      const lastMs = loggedAtMs.get(about)
      const nowMs = performance.now()
      loggedAtMs.set(about, nowMs)
      if (lastMs === undefined || nowMs - lastMs > LOG_AGAIN_MS) log.error(message)
    },
    forget: () => loggedAtMs.clear(),
  }
}
