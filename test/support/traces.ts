import { expect } from 'vitest'
import type { ReceivedSpan, ReceivedTrace } from './otlp.ts'
import { type Environment, runCommand } from './project.ts'

export const NOT_SENT = 'The trace was not sent to OTEL_EXPORTER_OTLP_ENDPOINT: '
export const TOKEN = 'tok_of_collector_81d3'

export const endpoint = (url: string, more: Environment = {}): Environment => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  ...more,
})

/** The only line of a run whose trace is not sent, and how long that run took. */
export async function unsentTrace(environment: Environment): Promise<{ line: string; ms: number }> {
  const startedMs = performance.now()
  const ended = await runCommand(['sync', '--json'], environment)
  const ms = performance.now() - startedMs
  expect(ended.code).toBe(0)
  expect(JSON.parse(ended.stdout)).toMatchObject({ status: 'ok' })
  const lines = ended.stderr.trim().split('\n')
  expect(lines).toHaveLength(1)
  const { msg, level } = JSON.parse(lines[0] as string)
  expect(level).toBe('warn')
  return { line: msg, ms }
}

/** The only trace: one root and its children, within its time. `names` are those of the children, as they began. */
export function onlyTrace(
  received: readonly ReceivedTrace[],
): ReceivedTrace & { root: ReceivedSpan; names: string[] } {
  expect(received).toHaveLength(1)
  const [trace] = received as [ReceivedTrace]
  const roots = trace.spans.filter(({ parentSpanId }) => parentSpanId === '')
  expect(roots).toHaveLength(1)
  const [root] = roots as [ReceivedSpan]
  for (const span of trace.spans) {
    expect(span.traceId).toBe(root.traceId)
    expect(span.end >= span.start && span.start >= root.start && span.end <= root.end).toBe(true)
    if (span !== root) expect(span.parentSpanId).toBe(root.spanId)
  }
  expect(new Set(trace.spans.map(({ spanId }) => spanId)).size).toBe(trace.spans.length)
  const children = trace.spans.filter(span => span !== root)
  const byStart = children.toSorted((a, b) => Number(a.start - b.start))
  return { ...trace, root, names: byStart.map(({ name }) => name) }
}
