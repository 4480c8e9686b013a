import { join } from 'node:path'
import { companiesOf, startApi } from '../company/api.ts'
import { placeOfAll } from '../company/place.ts'
import { measureCrowd, measureIdle } from '../daemon/crowd.ts'
import { measureMany } from '../daemon/many.ts'
import { MOMENTS, measureStops } from '../daemon/stops.ts'
import type { Figure } from '../frame/figures.ts'
import { type Bench, count, names, ROUNDS, situation } from '../frame/situation.ts'
import { startRedis } from '../processes/redis.ts'

type Companies = {
  readonly companies: number
  readonly notices: number
  readonly idle: number
  readonly seed: string
}

export const daemon = situation({
  name: 'daemon',
  about:
    'The worker (npm start) with its own Redis: two workers with many companies due at once, one worker stopped during a backfill, and an idle one. Bars apply to the worst round.',
  options: {
    companies: count('number of companies; 0 skips them and the idle worker', 50, 0),
    notices: count('size of each company', 400),
    backfill: count('size of the company whose backfill is stopped; 0 skips this', 20_000, 0),
    moments: names('when the backfill is stopped', MOMENTS),
    many: count(
      'companies in one file, three of them failing: a broken entry, no key, killed runs; 0 skips this',
      0,
      0,
    ),
    idle: count('how long the idle worker is measured, in seconds', 60),
    ...ROUNDS,
  },
  judgedBy: 'worst',
  needsProc: true,
  async measure(bench, options) {
    const { companies, many, backfill, moments, seed } = options
    return await bench.rounds(async round => {
      const redis = await startRedis(join(round.directory, 'redis'))
      const figures: Figure[] = []
      if (companies > 0) figures.push(...(await measureCompanies(round, options, redis.url)))
      if (many > 0) figures.push(...(await measureMany(round, { companies: many, seed }, redis.url)))
      if (backfill > 0)
        figures.push(...(await measureStops(round, { notices: backfill, moments, seed }, redis.url)))
      await redis.close()
      return figures
    })
  },
})

async function measureCompanies(bench: Bench, options: Companies, redisUrl: string): Promise<Figure[]> {
  bench.step('generating the companies')
  const companies = companiesOf(options.companies, options)
  const api = await startApi(companies)
  const settings = { API_BASE_URL: api.url, REDIS_URL: redisUrl, REDIS_PREFIX: 'companies' }
  const place = await placeOfAll(await bench.folder('companies'), companies, settings)
  const crowd = await measureCrowd(bench, { api, companies, place })
  const idle = await measureIdle(bench, { companies, place }, options.idle)
  await api.close()
  return [...crowd, ...idle]
}
