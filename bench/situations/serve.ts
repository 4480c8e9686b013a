import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { largestChildBytes, peakRssBytes } from '#tools/proc.ts'
import { companyOf, startApi } from '../company/api.ts'
import { createKey, type Place, placeOf } from '../company/place.ts'
import { syncOnce } from '../company/runs.ts'
import { asRow, type Bar, type Figure, figure, least, megabytes, most } from '../frame/figures.ts'
import { count, situation } from '../frame/situation.ts'
import { startCallee } from '../processes/calls.ts'
import { answerOf } from '../processes/processes.ts'
import { startService, untilServed } from '../processes/service.ts'
import { watchPeak } from '../processes/watch.ts'
import type { Load, Loaded } from '../serve/clients.ts'
import type { FloorCalls } from '../serve/floor.ts'

const here = (name: string) => fileURLToPath(new URL(`../serve/${name}`, import.meta.url))
const PAGE = 200
/** Events of one answer of the feed. */
const EVENTS = 200

const TEXTS = [
  'aquisição',
  'servicos limpeza',
  'medicamentos',
  '"merenda escolar"',
  'manuten*',
  'prefeitura obras',
  'de',
  '',
]
const FILTERS = [
  '',
  'uf=SP,RJ,MG',
  'status=analysis,pricing',
  'verdict=participar',
  'session_from=2020-01-01&value_min=50000',
]
const SORTS = ['', 'session', '-value', '-updated']
/** The company size for which the bars are set. */
const STATED_FOR = 20_000

/** A kind of requests, with its bars. */
type Kind = {
  readonly name: string
  readonly paths: (served: Served) => string[] | Promise<string[]>
  /** Instead of the number in the options, if the bars name one. */
  readonly clients?: number
  readonly gzip?: true
  readonly p99?: Bar | null
  readonly perSecond?: Bar | null
  readonly megabytesPerSecond?: Bar | null
  readonly eventsPerSecond?: Bar | null
}

const KINDS: readonly Kind[] = [
  { name: 'page of 200', paths: pagePaths, p99: most(25) },
  { name: 'page of 200, gzip', paths: pagePaths, gzip: true, p99: most(25) },
  { name: 'notice', paths: noticePaths, perSecond: least(1500) },
  {
    name: 'analysis',
    paths: async served => (await noticePaths(served)).map(path => `${path}/analysis`),
    perSecond: least(800),
  },
  { name: 'search', paths: searchPaths, clients: 20, p99: most(50) },
  {
    name: 'export',
    paths: () => ['/api/v1/mirror/export.ndjson?what=both'],
    clients: 1,
    megabytesPerSecond: least(100),
  },
  { name: 'changes', paths: changesPaths, eventsPerSecond: least(5000) },
]

export const serve = situation({
  name: 'serve',
  about:
    'The mirror (editais serve) on a generated company: clients on the same machine request pages, notices and analyses. Compared with a bare server that sends as many bytes.',
  options: {
    notices: count('size of the company', 20_000),
    clients: count('number of concurrent clients', 50),
    seconds: count('how long each kind of request is measured', 10),
  },
  needsProc: true,
  async measure(bench, options) {
    const { notices, clients, seconds } = options
    const isStated = notices <= STATED_FOR
    bench.step('generating')
    const company = companyOf(options)
    const api = await startApi([company])
    const place = await placeOf(bench.directory, { ...company, url: api.url })
    bench.step('full sync')
    await syncOnce(api, place, { loaded: notices, full: true })
    const key = await createKey(place)
    bench.step('start')
    const { service, figures } = await startServing(place, key)
    const served = { url: service.url, key, notices }
    for (const kind of KINDS) {
      bench.step(`${kind.name}, ${kind.clients ?? clients} clients`)
      const load = { ...served, paths: await kind.paths(served), clients: kind.clients ?? clients, seconds }
      if (load.paths.length === 0) bench.note(`${kind.name}: not measured, because too few notices have none`)
      else figures.push(...(await measureKind(kind, load, { place, isStated })))
    }
    const rss = megabytes(peakRssBytes(service.pid))
    figures.push(figure('peak_rss_megabytes', 'peak RSS of the server, MB', 0, rss, most(800, isStated)))
    await service.end('SIGTERM')
    await api.close()
    return figures
  },
})

/** Starts the server, and waits until a process has prepared a snapshot for it. */
async function startServing(place: Place, key: string) {
  const temporary = { TMPDIR: place.directory }
  const service = await startService('serve', { ...place, env: { ...place.env, ...temporary } })
  const builder = watchPeak(() => largestChildBytes(service.pid))
  const readySeconds = await untilServed(service, key)
  const figures: Figure[] = [
    figure('ready_seconds', 'from the start to the first answer, s', 1, readySeconds),
    figure('builder_rss_megabytes', 'peak RSS of the builder, MB', 0, megabytes(builder.end())),
  ]
  return { service, figures }
}

/** Compares the mirror with the floor: a bare server with bodies of the same size. */
async function measureKind(
  kind: Kind,
  load: Omit<Load, 'gzip'>,
  { place, isStated }: { readonly place: Place; readonly isStated: boolean },
): Promise<Figure[]> {
  const ask = (url: string) =>
    answerOf<Loaded>(here('clients.ts'), { ...load, url, gzip: kind.gzip === true }, place.directory)
  const { errors, perSecond, bodyBytes, ms } = await ask(load.url)
  const floor = await startCallee<FloorCalls>(here('floor.ts'), bodyBytes)
  const bare = await ask(await floor.call('url'))
  await floor.close()
  const stated = (bar: Bar | null = null) => (isStated ? bar : null)
  const rate = megabytes(perSecond * bodyBytes)
  const row = asRow('requests', kind.name, [
    figure('bytes', 'bytes', 0, bodyBytes),
    figure('errors', 'not 200', 0, errors, most(0)),
    figure('megabytes_per_second', 'MB/s', 0, rate, stated(kind.megabytesPerSecond)),
    figure('per_second', 'requests/s', 0, perSecond, stated(kind.perSecond)),
    figure('p50_ms', 'p50, ms', 1, ms.p50),
    figure('p99_ms', 'p99, ms', 1, ms.p99, stated(kind.p99)),
    figure('floor_per_second', 'floor, requests/s', 0, bare.perSecond),
    figure('floor_p99_ms', 'floor, p99, ms', 1, bare.ms.p99),
    figure('share', 'share of the floor', 2, perSecond / bare.perSecond),
  ])
  if (!kind.eventsPerSecond) return row
  const events = perSecond * EVENTS
  return [...row, figure('events_per_second', 'changes: events/s', 0, events, stated(kind.eventsPerSecond))]
}

/** A server, and the key of a company with this many notices. */
type Served = { readonly url: string; readonly key: string; readonly notices: number }

/** Searches as people and programs send them: with text or without, for a few notices or for nearly all of them. */
function searchPaths(): string[] {
  return TEXTS.flatMap(text =>
    FILTERS.flatMap(filter =>
      SORTS.map(sort => {
        const query = [text && `q=${encodeURIComponent(text)}`, filter, sort && `sort=${sort}`]
        return `/api/v1/mirror/editais?${query.filter(part => part !== '').join('&')}`
      }),
    ),
  )
}

/** Every page of the list. */
function pagePaths({ notices }: Served): string[] {
  return Array.from(
    { length: Math.ceil(notices / PAGE) },
    (_, n) => `/api/v1/editais?limit=${PAGE}&offset=${n * PAGE}`,
  )
}

/** Some hundred notices from all over the list. */
async function noticePaths(served: Served): Promise<string[]> {
  const paths: string[] = []
  for (const path of pagePaths(served)) {
    const { editais } = (await ask(served, path)).answer as { editais: { id: string }[] }
    paths.push(...editais.slice(0, 5).map(({ id }) => `/api/v1/editais/${id}`))
  }
  return paths
}

/** Every answer of the feed that is full, from the beginning of the log. */
async function changesPaths(served: Served): Promise<string[]> {
  const paths: string[] = []
  for (let path = `/api/v1/mirror/changes?limit=${EVENTS}`; ; ) {
    const { status, answer } = await ask(served, path)
    // Its index is being made.
    if (status === 503) {
      await sleep(500)
      continue
    }
    const page = answer as { next: string; has_more: boolean }
    if (!page.has_more) return paths
    paths.push(path)
    path = `/api/v1/mirror/changes?limit=${EVENTS}&since=${page.next}`
  }
}

async function ask({ url, key }: Served, path: string): Promise<{ status: number; answer: unknown }> {
  const { statusCode, body } = await request(`${url}${path}`, { headers: { 'x-api-key': key } })
  return { status: statusCode, answer: await body.json() }
}
