import { join } from 'node:path'
import type { Edital } from '#src/sandbox/world.ts'
import { peakRssBytes } from '#tools/proc.ts'
import { companyOf } from '../company/api.ts'
import { type Living, startLiving } from '../company/living.ts'
import { createKey, type Place, placeOf, runAt } from '../company/place.ts'
import { asRow, type Figure, figure, megabytes, most } from '../frame/figures.ts'
import type { Bench } from '../frame/situation.ts'
import type { Environment } from '../processes/processes.ts'
import { startService, untilServed } from '../processes/service.ts'
import { watchHealth } from '../processes/watch.ts'
import { MOST_HEALTH_MS, MOST_MEGABYTES } from './attacked.ts'

type Texts = { readonly notices: number; readonly field: keyof Edital; readonly bytes: number }

/** Companies whose notices have texts below the limit of an answer, 32 MB, but far beyond what anybody writes. */
const TEXTS: Readonly<Record<string, Texts>> = {
  'one objeto of 25 MB': { notices: 1, field: 'objeto', bytes: 25_000_000 },
  '200 notices with an objeto of 100 kB': { notices: 200, field: 'objeto', bytes: 100_000 },
  '300 notices with a modalidade of 75 kB': { notices: 300, field: 'modalidade', bytes: 75_000 },
  '3,000 notices with an objeto of 35 kB, just long enough to be cut': {
    notices: 3000,
    field: 'objeto',
    bytes: 35_000,
  },
  '3,000 notices with an objeto of 30 kB, just too short to be cut': {
    notices: 3000,
    field: 'objeto',
    bytes: 30_000,
  },
}
const WORD = 'ação '
/** Notices as usual, besides. */
const HEALTHY = 20
/** About that of a full sync of 20,000 usual notices. */
const MOST_SYNC_MEGABYTES = 900

/** @throws Error if a sync fails, or a company is not served. */
export async function measureTexts(bench: Bench, seed: string, redisUrl: string): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [index, [name, texts]] of Object.entries(TEXTS).entries()) {
    bench.step(`sync and serve: ${name}`)
    const directory = join(bench.directory, `texts-${index}`)
    const about = { seed, directory, redis: { REDIS_URL: redisUrl, REDIS_PREFIX: `texts-${index}` } }
    figures.push(...asRow('texts', name, await measureOne(texts, about)))
  }
  return figures
}

/** Syncs a company with long texts, and then serves it by new servers. */
async function measureOne(
  { notices, field, bytes }: Texts,
  {
    seed,
    directory,
    redis,
  }: { readonly seed: string; readonly directory: string; readonly redis: Environment },
): Promise<Figure[]> {
  const { companies, sandbox } = await startLiving([companyOf({ notices: notices + HEALTHY, seed })])
  const company = companies[0] as Living
  const { world } = company
  for (const [n, id] of world.ids().slice(0, notices).entries())
    world.update(id, { edital: { [field]: `${n} ${WORD.repeat(bytes / Buffer.byteLength(WORD))}` } })
  const place = await placeOf(directory, { ...company, url: sandbox.url }, redis)
  try {
    const sync = await runAt(place, 'sync', ['--full', '--json'])
    const { loaded } = JSON.parse(sync.stdout) as { loaded: number }
    const rss = megabytes(sync.peakRssBytes)
    const key = await createKey(place)
    return [
      figure('not_loaded', 'notices not loaded', 0, company.notices - loaded, most(0)),
      figure('sync_seconds', 'sync, s', 1, sync.wallSeconds),
      figure('sync_rss_megabytes', 'sync: peak RSS, MB', 0, rss, most(MOST_SYNC_MEGABYTES)),
      ...(await measureServing('serve', place, key)),
      ...(await measureServing('start', place, key)),
    ]
  } finally {
    await sandbox.close()
  }
}

/** How a server behaves until it serves the company; its builders prepare everything. */
async function measureServing(script: string, place: Place, key: string): Promise<Figure[]> {
  const service = await startService(script, place)
  const watched = watchHealth(service.url)
  const seconds = await untilServed(service, key)
  const { p99 } = await watched.end()
  const rss = megabytes(peakRssBytes(service.pid))
  await service.end('SIGTERM')
  return [
    figure(`${script}_ready_seconds`, `${script}: first answer after, s`, 1, seconds),
    figure(`${script}_rss_megabytes`, `${script}: peak RSS, MB`, 0, rss, most(MOST_MEGABYTES)),
    figure(`${script}_p99_ms`, `${script}: /healthz p99, ms`, 1, p99, most(MOST_HEALTH_MS)),
  ]
}
