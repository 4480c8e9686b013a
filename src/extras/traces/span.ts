/** A stretch of time, as a collector shows it. */
export type TraceSpan = {
  readonly name: string
  /** Milliseconds since 1970, with fractions. */
  readonly startMs: number
  readonly endMs: number
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  /** Why it failed, as a sentence; null if it did not. */
  readonly error: string | null
}

/** A span and those within it. */
type Trace = { readonly root: TraceSpan; readonly children: readonly TraceSpan[] }

/** The order to the thread that sends a trace; it reports why the trace was not sent, or null. */
export type Shipment = { readonly trace: Trace; readonly service: string }
