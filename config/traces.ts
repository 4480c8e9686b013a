import { getMessage } from '#src/lib/errors.ts'
import { type Environment, readSecret } from './settings.ts'

export type TraceSettings = {
  /** OpenTelemetry's own variables, for its exporter alone; the headers can hold a token. */
  readonly environment: Readonly<Record<string, string>>
  /** Why no trace can be sent, as a sentence; null if nothing is known to be wrong. */
  readonly problem: string | null
}

/** A collector of traces must never fail a run, so what is wrong here is a note at its end. */
const HEADERS = 'OTEL_EXPORTER_OTLP_HEADERS'

/** Returns where traces of runs go; null if they are off. Never throws. */
export function readTraceSettings(environment: Environment): TraceSettings | null {
  const own = Object.entries(environment).flatMap(([name, value]) =>
    name.startsWith('OTEL_') && value?.trim() ? [[name, value.trim()] as const] : [],
  )
  const variables: Readonly<Record<string, string>> = Object.fromEntries(own)
  const name = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'].find(
    one => variables[one] !== undefined,
  )
  if (name === undefined || isOff(variables)) return null
  try {
    const { value } = readSecret(environment, HEADERS, 'the headers')
    return {
      environment: value === null ? variables : { ...variables, [HEADERS]: value },
      problem: isHttp(variables[name]) ? null : `${name} must be an address such as http://localhost:4318.`,
    }
  } catch (error) {
    return { environment: variables, problem: getMessage(error) }
  }
}

function isOff({ OTEL_SDK_DISABLED: disabled, OTEL_TRACES_EXPORTER: exporter }: Environment): boolean {
  return disabled?.toLowerCase() === 'true' || exporter?.toLowerCase() === 'none'
}

function isHttp(address = ''): boolean {
  return /^https?:$/.test(URL.parse(address)?.protocol ?? '')
}
