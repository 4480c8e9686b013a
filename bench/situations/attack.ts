import { cp, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { generateWorld } from '#src/sandbox/generate.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { attackAll, MOST_MEGABYTES, type Target } from '../attack/attacked.ts'
import { addHostileNotices } from '../attack/hostile_notices.ts'
import { measureTexts } from '../attack/texts.ts'
import { companyOf, slugOf } from '../company/api.ts'
import { createKey, ONCE_A_YEAR, type Place, pathsOf, placeOf, runAt } from '../company/place.ts'
import { type Figure, figure, megabytes, most } from '../frame/figures.ts'
import { type Bench, count, situation } from '../frame/situation.ts'
import { startRedis } from '../processes/redis.ts'
import { startService, untilServed } from '../processes/service.ts'
import { watchMemory } from '../processes/watch.ts'

/** Besides the one that reads: streams are limited for each key. */
const MORE_KEYS = 7

type Options = { readonly notices: number; readonly seconds: number; readonly seed: string }

export const attack = situation({
  name: 'attack',
  about:
    'Attacks the API server (editais serve) and the daemon (npm start) during health checks: with endless connections, requests and answers, many companies to prepare at once, and very long texts.',
  options: {
    notices: count('size of the company', 1710),
    companies: count('companies to prepare at once; 0 skips this', 40, 0),
    seconds: count('how long each attack lasts', 15),
  },
  needsProc: true,
  async measure(bench, options) {
    bench.step(`full sync of ${options.notices} notices`)
    const { place, target, close } = await prepare(bench, options)
    const redis = await startRedis(join(bench.directory, 'redis'))
    const figures = await attackServers(bench, { place, target, redisUrl: redis.url })
    await close()
    if (options.companies > 0) {
      bench.step(`${options.companies} companies at once`)
      figures.push(...(await measureCrowd(bench, options.companies, place)))
    }
    figures.push(...(await measureTexts(bench, options.seed, redis.url)))
    await redis.close()
    return figures
  },
})

async function attackServers(
  bench: Bench,
  { place, target, redisUrl }: { readonly place: Place; readonly target: Target; readonly redisUrl: string },
): Promise<Figure[]> {
  const serve = await startService('serve', place)
  const readySeconds = await untilServed(serve, target.key)
  const underServe = await attackAll(bench, 'serve', { service: serve, target })
  const restarted = await startService('serve', place)
  const restartSeconds = await untilServed(restarted, target.key)
  await restarted.end('SIGTERM')
  // The daemon has no run during the attacks.
  const env = { ...place.env, REDIS_URL: redisUrl, SYNC_CRON: ONCE_A_YEAR }
  const start = await startService('start', { ...place, env })
  await untilServed(start, target.key)
  return [
    figure('ready_seconds', 'first answer after, s', 1, readySeconds),
    figure('restart_seconds', 'restart: first answer after, s', 2, restartSeconds, most(1)),
    ...underServe,
    ...(await attackAll(bench, 'start', { service: start, target })),
  ]
}

/** Syncs a company with hostile notices, and creates keys for its API. */
async function prepare(bench: Bench, { notices, seconds, seed }: Options) {
  const company = companyOf({ notices, seed })
  const world = generateWorld({ seed, company: company.slug, notices, start: new Date() })
  const { large, dashed } = addHostileNotices(world)
  const sandbox = await startSandbox({ companies: [{ slug: company.slug, key: company.apiKey, world }] })
  const place = await placeOf(await bench.folder('attacked'), { ...company, url: sandbox.url })
  await runAt(place, 'sync', ['--full'])
  const key = await createKey(place)
  const moreKeys: string[] = []
  for (let n = 0; n < MORE_KEYS; n += 1) moreKeys.push(await createKey(place))
  const path = `/api/v1/editais/${encodeURIComponent(large)}/analysis`
  const page = `/editais/${encodeURIComponent(dashed)}`
  return { place, target: { key, moreKeys, path, page, notices, seconds }, close: () => sandbox.close() }
}

/** Many companies prepared at once, and the time of a restart afterwards. Each has a copy of one company's lake. */
async function measureCrowd(bench: Bench, companies: number, from: Place): Promise<Figure[]> {
  const dataDir = await bench.folder('crowd')
  const keys: string[] = []
  for (let n = 0; n < companies; n += 1) {
    const slug = slugOf(n)
    const place = { directory: bench.directory, env: { DATA_DIR: dataDir, COMPANY: slug } }
    const { root, lake } = pathsOf(place, slug)
    await mkdir(root, { mode: 0o711 })
    await cp(pathsOf(from).lake, lake, { recursive: true, verbatimSymlinks: true })
    keys.push(await createKey(place))
  }
  const place = { directory: bench.directory, env: { DATA_DIR: dataDir } }
  const { seconds, memory } = await prepareAll(place, keys)
  const again = await prepareAll(place, keys)
  const name = `${companies} companies`
  const [all, own] = [megabytes(memory.peakBytes), megabytes(memory.ownBytes)]
  return [
    figure('crowd_builders', `${name}: builders at once`, 0, memory.children, most(2)),
    figure('crowd_first_seconds', `${name}: the first served after, s`, 1, Math.min(...seconds)),
    figure('crowd_all_seconds', `${name}: all served after, s`, 1, Math.max(...seconds)),
    figure('crowd_restart_seconds', `${name}: all served after a restart, s`, 2, Math.max(...again.seconds)),
    figure('crowd_all_rss_megabytes', `${name}: peak RSS with builders, MB`, 0, all),
    figure('crowd_rss_megabytes', `${name}: peak RSS of the server, MB`, 0, own, most(MOST_MEGABYTES)),
  ]
}

/** Starts a server, and waits until it serves all of them. */
async function prepareAll(place: Place, keys: readonly string[]) {
  const service = await startService('serve', place)
  const watched = watchMemory(service.pid)
  const seconds = await Promise.all(keys.map(key => untilServed(service, key)))
  const memory = watched.end()
  await service.end('SIGTERM')
  return { seconds, memory }
}
