import { getMetricsFromIterator, type PromMetric } from 'prom2javascript'

export type Scraped = ReadonlyMap<
  string,
  {
    readonly type: string
    readonly help: string
    /** By labels, such as `company=acme,status=ok`; for a histogram: buckets (`…,le=5`), `…,sum` and `…,count`. */
    readonly values: Readonly<Record<string, number>>
  }
>

/**
 * Parses Prometheus' text format.
 * @throws Error if the text is invalid or has something twice.
 */
export async function readMetrics(text: string): Promise<Scraped> {
  const lines = text.split('\n').filter(line => line !== '')
  refuseRepeated(lines.map(line => line.replace(/ [^ ]*$/, '')))
  // The parser does not accept NaN, which Node returns for its event loop before the first measurement.
  const metrics = await getMetricsFromIterator(lines.filter(line => !/ NaN$/i.test(line)).values())
  return new Map(
    Object.entries(metrics).map(([name, metric]) => [
      name,
      { type: metric.type, help: metric.help, values: Object.fromEntries(metric.data.flatMap(valuesOf)) },
    ]),
  )
}

function refuseRepeated(names: readonly string[]): void {
  const repeated = names.find((name, index) => names.indexOf(name) !== index)
  if (repeated !== undefined) throw new Error(`${repeated} occurs twice.`)
}

function valuesOf(datum: PromMetric['data'][number]): [string, number][] {
  const labels = Object.entries(datum.labels).map(([name, value]) => `${name}=${value}`)
  const at = (...more: string[]) => [...labels, ...more].join(',')
  if ('value' in datum) return [[at(), datum.value]]
  if (!('buckets' in datum)) throw new Error('Unexpected metric type: summary.')
  const buckets = Object.entries(datum.buckets).map(
    ([le, count]) => [at(`le=${le}`), count] as [string, number],
  )
  return [...buckets, [at('sum'), datum.sum ?? Number.NaN], [at('count'), datum.count]]
}
