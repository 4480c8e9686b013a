import { expect } from 'vitest'
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
