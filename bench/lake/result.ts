import { renderTable } from '#src/cli/table.ts'
import { type Verdict, verdict } from '../bars.ts'
import { describeMachine, round, verdictCells } from '../result.ts'
import type { Compared, LakeBench, Lasting } from './bench.ts'

/** A run may take this much longer if there is an object store. */
const MAX_RATIO = 1.2
const MAX_FILES_RATIO = 1.2
/** For each table, besides its data files. */
const MAX_OBJECTS_PER_TABLE = 3
const MAX_GROWTH = 1.2

export function judgeLake(compared: Compared, lasting: Lasting | null): Verdict[] {
  const { seconds, withStoreSeconds, written, dataFiles, tables } = compared
  const most = MAX_FILES_RATIO * dataFiles + MAX_OBJECTS_PER_TABLE * tables
  return [
    verdict(
      '0.5 % changed: a run with an object store, of one without',
      withStoreSeconds / seconds,
      'most',
      MAX_RATIO,
    ),
    verdict('0.5 % changed: objects written', written, 'most', Math.floor(most)),
    ...(lasting
      ? [
          verdict(
            'the last publishes, of the first ones',
            lasting.lastSeconds / lasting.firstSeconds,
            'most',
            MAX_GROWTH,
          ),
        ]
      : []),
  ]
}

export function describeLake({ machine, settings, compared, lasting, bars }: LakeBench): string {
  const { notices, latency, formats, snapshots, small } = settings
  const rows = [
    ['full run, s', round(compared.firstSeconds, 1)],
    ['full run with an object store, s', round(compared.firstWithStoreSeconds, 1)],
    ['… until the store has it, s', round(compared.firstPublishedSeconds, 1)],
    ['0.5 % changed, s', round(compared.seconds, 2)],
    ['0.5 % changed, with an object store, s', round(compared.withStoreSeconds, 2)],
    ['… until the store has it, s', round(compared.publishedSeconds, 2)],
    ['… requests to the store', compared.requests],
    ['… objects written', compared.written],
    ['… of these data files', compared.dataFiles],
    ['tables', compared.tables],
    ...(lasting
      ? [
          [`${small} notices, ${snapshots} snapshots: first runs, s`, round(lasting.firstSeconds, 2)],
          ['… last runs, s', round(lasting.lastSeconds, 2)],
          ['… largest metadata.json, kB', Math.round(lasting.metadataBytes / 1000)],
          ['… after a vacuum, kB', Math.round(lasting.metadataBytesAfterVacuum / 1000)],
          ['… verify, s', round(lasting.verifySeconds, 1)],
          ['… vacuum, s', round(lasting.vacuumSeconds, 1)],
        ]
      : []),
  ].map(([figure, value]) => ({ figure, value }))
  return [
    `${describeMachine(machine)}; ${notices.toLocaleString('en-US')} notices, ${formats}, ${latency} ms`,
    renderTable(['figure', 'value'], rows),
    renderTable(['bar', 'value', 'limit', 'verdict'], bars.map(verdictCells)),
  ].join('\n')
}
