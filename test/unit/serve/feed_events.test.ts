import { expect, test } from 'vitest'
import { createLogger } from '#src/lib/log.ts'
import {
  follow,
  type LoadedLine,
  type NoticeState,
  pickAnalysisFields,
  pickNoticeFields,
} from '#src/server/feed/events.ts'
import { Feed } from '#src/server/feed/feed.ts'
import { readFeedCursor, writeFeedCursor } from '#src/server/feed/index_file.ts'
import { noticeEntry } from '#test/support/notices.ts'

const { edital, analysis } = noticeEntry(1)
const [V1, V2] = ['2026-11-01T00:01:00.000Z', '2026-11-02T00:00:00.000Z']
const noticed = (segment: number, updated_at = V1, fields = {}): LoadedLine => ({
  ...{ type: 'notice', segment, updated_at },
  notice: { ...edital, updated_at, ...fields },
})
const analysed = (segment: number, updated_at = V1, fields = {}): LoadedLine => ({
  ...{ type: 'analysis', segment, updated_at },
  analysis: { ...analysis, ...fields },
})
const same = (segment: number, updated_at = V1): LoadedLine => ({
  type: 'analysis_same',
  segment,
  updated_at,
})
const ZONE = 'America/Sao_Paulo'
const gone = (segment: number): LoadedLine => ({ type: 'gone', segment })

/** The kinds of events of each line. */
function kinds(...lines: readonly LoadedLine[]): string[] {
  let state: NoticeState | null = null
  return lines.map(line => {
    const step = follow(state, line, ZONE)
    state = step.state
    return step.events.map(({ kind }) => kind).join('+')
  })
}

test.each<[string, readonly LoadedLine[], readonly string[]]>([
  ['arrival and analysis', [noticed(1), analysed(2)], ['notice_arrived', 'analysis_arrived']],
  [
    'a change outdates the analysis until it is read',
    [noticed(1), analysed(2), noticed(3, V2), same(4, V2)],
    ['notice_arrived', 'analysis_arrived', 'notice_changed+analysis_outdated', 'analysis_current'],
  ],
  [
    'the same notice, listed again, outdates it as well',
    [noticed(1), analysed(2), noticed(3, V1, { de_fora: 1 }), same(4)],
    ['notice_arrived', 'analysis_arrived', 'analysis_outdated', 'analysis_current'],
  ],
  [
    'a reading without a change is no event',
    [noticed(1), analysed(2), analysed(3), same(4)],
    ['notice_arrived', 'analysis_arrived', '', ''],
  ],
  [
    'a changed verdict',
    [noticed(1), analysed(2), analysed(3, V1, { verdict: { recommendation: 'cautela' } })],
    ['notice_arrived', 'analysis_arrived', 'analysis_changed+verdict_changed'],
  ],
  [
    'an analysis of an earlier version is not served',
    [noticed(1), noticed(3, V2), analysed(4, V1), analysed(5, V2)],
    ['notice_arrived', 'notice_changed', '', 'analysis_arrived'],
  ],
  [
    'an analysis that changed while it was not served',
    [noticed(1), analysed(2), noticed(3, V2), analysed(4, V1, { analysis_level: 'deep' }), same(5, V2)],
    ['notice_arrived', 'analysis_arrived', 'notice_changed+analysis_outdated', '', 'analysis_changed'],
  ],
  [
    'a deletion, once, and a return',
    [noticed(1), analysed(2), gone(3), gone(4), noticed(5), same(6)],
    ['notice_arrived', 'analysis_arrived', 'notice_deleted', '', 'notice_returned', 'analysis_current'],
  ],
  [
    'the same time in another spelling outdates nothing',
    [noticed(1), analysed(2, '2026-10-31T21:01:00-03:00'), noticed(2, '2026-11-01T00:01Z')],
    ['notice_arrived', 'analysis_arrived', ''],
  ],
  ['nothing of an unknown notice', [gone(1), same(1), analysed(1)], ['', '', '']],
])('%s', (_, lines, expected) => {
  expect(kinds(...lines)).toEqual(expected)
})

test('a field is not changed where only the spelling of its time is', () => {
  const times = { data_sessao: '2027-03-10T09:00:00', committed_at: '2026-11-02' }
  const { state } = follow(null, noticed(1, V1, times), ZONE)
  const respelled = {
    data_sessao: '2027-03-10T12:00:00Z',
    committed_at: '2026-11-02T00:00:00-03:00',
    numero: '7',
  }
  expect(follow(state, noticed(2, V1, respelled), ZONE).events[0]?.fields).toEqual(['committed_at', 'numero'])
  expect(follow(state, noticed(2, V1, { ...times, data_sessao: undefined }), ZONE).events[0]?.fields).toEqual(
    ['data_sessao'],
  )
})

test('values are those before and after; long ones are left out', () => {
  const { state } = follow(null, noticed(1, V1, { objeto: 'x'.repeat(3000), numero: null }), ZONE)
  const changed = noticed(2, V1, { objeto: 'y'.repeat(3000), numero: '7', valor_estimado: undefined })
  expect(follow(state, changed, ZONE).events[0]).toEqual({
    kind: 'notice_changed',
    fields: ['objeto', 'valor_estimado', 'numero'],
    changes: [
      { field: 'objeto', omitted: true },
      { field: 'valor_estimado', before: 1.25, after: null },
      { field: 'numero', before: null, after: '7' },
    ],
  })
})

test.each([
  ['2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00Z'],
  ['2026-11-20T09:00:00-03:00', '2026-11-20T12:00:00Z'],
  ['2026-11-20 12:00:00.5Z', '2026-11-20T12:00:00.500Z'],
  ['2026-11-20T12:00:00.123456Z', '2026-11-20T12:00:00.123456Z'],
  ['2026-11-20T12:00:00.1234567Z', '2026-11-20T12:00:00.1234567Z'],
  ['2026-11-20T12:00:00', '2026-11-20T12:00:00'],
  ['2026-11-20', '2026-11-20'],
])('a time is compared as it is served: %s', (text, served) => {
  expect(pickNoticeFields({ data_sessao: text })).toEqual({ data_sessao: JSON.stringify(served) })
})

test('an analysis is compared without nulls, unknown properties and the fields of its notice', () => {
  const document = { objeto: 'o', pricing: { margem_min: null }, verdict: { reason: null, novo: 1 }, novo: 2 }
  const items = [{ descricao: 'Item', quantidade: null, novo: 3 }]
  expect(pickAnalysisFields({ ...document, orgao_report: null, items })).toEqual({
    verdict: '{}',
    items: '[{"descricao":"Item"}]',
    pricing: '{}',
  })
})

test('a cursor is read as it was written, and other text is none', () => {
  const position = { segment: 2 ** 32 - 1, seq: 70_000, n: 1 }
  const log = { upTo: 2 ** 32 - 1, log: Buffer.alloc(6, 7), chain: Buffer.alloc(7, 9), madeMs: 2 ** 48 - 1 }
  const text = writeFeedCursor(position, log)
  expect(readFeedCursor(text)).toEqual({ ...position, ...log })
  for (const other of ['', 'latest', `${text}A`, text.slice(1), text.replace(/^./, 'B'), '='.repeat(44)])
    expect(readFeedCursor(other), other).toBeNull()
})

test('a lake that was published before anything was received has no changes yet: 503, not a failure', async () => {
  const feed = new Feed({
    root: '/nonexistent',
    shared: null,
    log: createLogger('silent', {}),
    bringUp: () => Promise.reject(new Error('nothing is indexed')),
  })
  const snapshot = {
    name: 'empty',
    appliedSegment: 0,
    versions: { notice: [], analysis: [] },
    timeZone: 'UTC',
    madeMs: 0,
  }
  await expect(feed.ready(() => snapshot)).rejects.toMatchObject({
    status: 503,
    message: 'There are no changes of this company yet. Try again after its first run.',
  })
  await feed.close()
})
