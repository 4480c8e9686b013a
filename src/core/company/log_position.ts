/**
 * How far a log goes: up to this segment. Each log counts its segments from 1, so two positions have an order only if they
 * are of the same log: a salvaged log and a new one begin again. A restored backup has the name of its original, and may
 * continue in another way: a later position proves only that the log once had more.
 */
export class LogPosition {
  readonly #log: string
  readonly #segment: number

  private constructor(log: string, segment: number) {
    this.#log = log
    this.#segment = segment
  }

  /**
   * Returns the position in a log; null if the log's name is not known: version 0.2.0 did not write it.
   * @param log its name (`meta.log`).
   */
  static of(log: string | null | undefined, segment: number): LogPosition | null {
    return log ? new LogPosition(log, segment) : null
  }

  /** Returns whether this one is before or after another; null if they are of two logs. */
  compare(other: LogPosition): 'before' | 'same' | 'after' | null {
    if (this.#log !== other.#log) return null
    if (this.#segment === other.#segment) return 'same'
    return this.#segment < other.#segment ? 'before' : 'after'
  }
}
