import { VIEWS } from '#schema/marts/marts.ts'
import type { Sized } from '../bars.ts'
import { type Verdict, verdict } from '../bars.ts'
import { martKey } from './figures.ts'

/** The company size for which the bars of time and of the report are set. */
const STATED_FOR = 20_000
/** For smaller companies, catalog and manifest outweigh the files that grow with the notices. */
const SHARE_FROM = 5000
const MART_WARM_MS = 200
const REPORT_SECONDS = 5
const REPORT_MEGABYTES = 2
const WRITTEN_PERCENT = 20

/** The bars for readers of the latest snapshot, as far as they apply to this company's size. */
export function judgeBi({ notices, figures }: Sized): Verdict[] {
  const figure = (key: string) => {
    const value = figures[key]
    if (typeof value !== 'number') throw new Error(`no figure named ${key}`)
    return value
  }
  const most = (what: string, key: string, limit: number) => verdict(what, figure(key), 'most', limit)
  const readers = [
    ...VIEWS.map(({ name }) => most(`${name}: warm, ms`, martKey(name, 'warm_ms'), MART_WARM_MS)),
    most('report: wall, s', 'report_wall_seconds', REPORT_SECONDS),
    most('report: MB', 'report_megabytes', REPORT_MEGABYTES),
  ]
  const held = figure('newest_percent')
  const aside = held > WRITTEN_PERCENT ? ` (they alone hold ${Math.round(held)} % of the notices)` : ''
  const what = `0.5 % changed, in the two newest of ${figure('months')} months${aside}: written, %`
  return [
    ...(notices <= STATED_FOR ? readers : []),
    ...(notices >= SHARE_FROM ? [most(what, 'written_percent', WRITTEN_PERCENT)] : []),
  ]
}
