import { getMetricsFromIterator, type PromMetric } from 'prom2javascript'

export type Scraped = ReadonlyMap<
  string,
  {
    readonly type: string
    readonly help: string
    /** By labels, as in `company=acme,status=ok`; of a histogram its buckets (`…,le=5`), `…,sum` and `…,count`. */
    readonly values: Readonly<Record<string, number>>
  }
>

/**
 * Reads Prometheus' text format.
 * @throws Error where the text is wrong, or says something twice.
 */
export async function readMetrics(text: string): Promise<Scraped> {
  const lines = text.split('\n').filter(line => line !== '')
  refuseRepeated(lines.map(line => line.replace(/ [^ ]*$/, '')))
  // The parser does not know NaN, which is what Node says of its loop before it has measured it.
  const metrics = await getMetricsFromIterator(lines.filter(line => !/ NaN$/i.test(line)).values())
  return new Map(
    Object.entries(metrics).map(([name, metric]) => [
      name,
      { type: metric.type, help: metric.help, values: Object.fromEntries(metric.data.flatMap(valuesOf)) },
    ]),
  )
}

function refuseRepeated(said: readonly string[]): void {
  const repeated = said.find((what, index) => said.indexOf(what) !== index)
  if (repeated !== undefined) throw new Error(`${repeated} is there twice.`)
}

function valuesOf(datum: PromMetric['data'][number]): [string, number][] {
  const labels = Object.entries(datum.labels).map(([name, value]) => `${name}=${value}`)
  const at = (...more: string[]) => [...labels, ...more].join(',')
  if ('value' in datum) return [[at(), datum.value]]
  if (!('buckets' in datum)) throw new Error('A summary: there should be none.')
  const buckets = Object.entries(datum.buckets).map(
    ([le, count]) => [at(`le=${le}`), count] as [string, number],
  )
  return [...buckets, [at('sum'), datum.sum ?? Number.NaN], [at('count'), datum.count]]
}
