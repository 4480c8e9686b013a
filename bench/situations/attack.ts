import { join } from 'node:path'
import { attackAll, type Target } from '../attack/attacked.ts'
import { addHostileNotices } from '../attack/hostile_notices.ts'
import { measureTexts } from '../attack/texts.ts'
import { companyOf } from '../company/api.ts'
import { type Living, startLiving } from '../company/living.ts'
import { createKey, ONCE_A_YEAR, type Place, placeOf, runAt } from '../company/place.ts'
import { type Figure, figure, most } from '../frame/figures.ts'
import { type Bench, count, situation } from '../frame/situation.ts'
import { startRedis } from '../processes/redis.ts'
import { startService, untilServed } from '../processes/service.ts'

/** Besides the one that reads: streams are limited for each key. */
const MORE_KEYS = 7

type Options = { readonly notices: number; readonly seconds: number; readonly seed: string }

export const attack = situation({
  name: 'attack',
  about:
    'Attacks the API server (editais serve) and the daemon (npm start) during health checks: with endless connections, requests and answers, and very long texts.',
  options: {
    notices: count('size of the company', 1710),
    seconds: count('how long each attack lasts', 15),
  },
  needsProc: true,
  async measure(bench, options) {
    bench.step(`full sync of ${options.notices} notices`)
    const { place, target, close } = await prepare(bench, options)
    const redis = await startRedis(join(bench.directory, 'redis'))
    const figures = await attackServers(bench, { place, target, redisUrl: redis.url })
    await close()
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
  const { companies, sandbox } = await startLiving([companyOf({ notices, seed })])
  const company = companies[0] as Living
  const { large, dashed } = addHostileNotices(company.world)
  const place = await placeOf(await bench.folder('attacked'), { ...company, url: sandbox.url })
  await runAt(place, 'sync', ['--full'])
  const key = await createKey(place)
  const moreKeys: string[] = []
  for (let n = 0; n < MORE_KEYS; n += 1) moreKeys.push(await createKey(place))
  const path = `/api/v1/editais/${encodeURIComponent(large)}/analysis`
  const page = `/editais/${encodeURIComponent(dashed)}`
  return { place, target: { key, moreKeys, path, page, notices, seconds }, close: () => sandbox.close() }
}
