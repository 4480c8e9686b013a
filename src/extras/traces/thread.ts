import { parentPort, workerData } from 'node:worker_threads'
import { diag, ROOT_CONTEXT, SpanStatusCode, trace as traces } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import {
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from '@opentelemetry/resources'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { findSystemCode, getMessage } from '#src/lib/errors.ts'
import { explainNetwork, NetworkError } from '#src/lib/http/network_error.ts'
import type { Shipment, TraceSpan } from './send.ts'

/** The only file that loads OpenTelemetry. `send.ts` starts it as a thread, whose variables configure the exporter. */

/** The beginnings of the exporter's own messages, which have no code, and what they mean. */
const MEANINGS: readonly (readonly [string, string])[] = [
  ['Request timed out', 'the collector did not answer in time'],
  ['Export failed with retryable status', 'the collector is overloaded or not ready'],
  ['OTLP export response body exceeded', 'the answer of the collector is too long'],
]
const OF_HEADERS: readonly string[] = ['ERR_INVALID_CHAR', 'ERR_INVALID_HTTP_TOKEN']

let isPartial = false
const ignore = () => {}
// Its other messages repeat values of settings.
const warn = (text: string) => {
  isPartial ||= text.startsWith('Received Partial Success')
}
diag.setLogger({ error: ignore, warn, info: ignore, debug: ignore, verbose: ignore })

const { trace, service } = workerData as Shipment
const count = trace.children.length + 1
const processor = new BatchSpanProcessor({
  exporter: new OTLPTraceExporter(),
  // All in one request, when flushed.
  maxQueueSize: count + 1,
  maxExportBatchSize: count + 1,
})
const resource = resourceFromAttributes({ 'service.name': service }).merge(
  detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] }),
)
const tracer = new TracerProvider({ resource, spanProcessors: [processor] }).getTracer(service)

const root = begin(trace.root)
const within = traces.setSpan(ROOT_CONTEXT, root)
for (const child of trace.children) end(begin(child, within), child)
end(root, trace.root)
const sent = processor.forceFlush().then(() => null, explain)
parentPort?.postMessage((await sent) ?? (isPartial ? 'the collector refused a part of it' : null))

function begin({ name, startMs, attributes }: TraceSpan, parent = ROOT_CONTEXT) {
  return tracer.startSpan(name, { startTime: new Date(startMs), attributes }, parent)
}

function end(span: ReturnType<typeof begin>, { endMs, error }: TraceSpan): void {
  if (error !== null) span.setStatus({ code: SpanStatusCode.ERROR, message: error })
  span.end(new Date(endMs))
}

/** Explains an error of the exporter as a clause, without any text of the collector. */
function explain(error: unknown): string {
  const status = error instanceof Error && 'code' in error ? error.code : undefined
  if (typeof status === 'number') return `the collector answered ${status}`
  const known = explainNetwork(error, 'the limit')
  if (known instanceof NetworkError) return known.message
  if (OF_HEADERS.includes(findSystemCode(error) ?? '')) return 'OTEL_EXPORTER_OTLP_HEADERS is not valid'
  const text = getMessage(error)
  return MEANINGS.find(([beginning]) => text.startsWith(beginning))?.[1] ?? 'the exporter failed'
}
