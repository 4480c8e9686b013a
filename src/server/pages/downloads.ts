import { parseLocalTime, readTime } from '#schema/times.ts'
import { createPause } from '#src/lib/concurrency.ts'
import {
  BYTE_ORDER_MARK,
  cleanForWorkbook,
  FORMULA,
  PRINTED_SHEET,
  printedHeadings,
} from '#src/present/text/cells.ts'
import { formatDay, formatDayAndTime } from '#src/present/text/format.ts'
import { namePhase, nameVerdict } from '#src/present/text/names.ts'
import { type Searched, type SearchParameters, searchPage } from '#src/server/search_page.ts'
import type { ListedNotice } from './list_page.ts'
import { formatYesOrNo, readPart, showText } from './show.ts'
import { findLastDay, type LastDays } from './today.ts'

/** Files of the notices that a search finds: a calendar of sessions and last days, and a table for spreadsheet programs. */

/** Notices of a file: programs read a calendar again each hour, and a workbook is written in one piece. */
const MAX = { calendar: 500, table: 20_000, workbook: 2000 }
const PAGE_SIZE = 1000
/** Calendars keep what is over for a while. */
const PAST_DAYS = 30
const HOUR_MS = 3_600_000
const MAX_TITLE = 120
const MAX_TEXT = 1000

type Wanted = Omit<SearchParameters, 'limit' | 'cursor' | 'fields'>

type About = {
  readonly company: string
  readonly timeZone: string
  /** `2026-12-31`, where the reader is. */
  readonly today: string
  readonly deadlines: LastDays
  /** The address of a notice's page. */
  readonly composeAddress: (id: string) => string
  /** Returns false once nobody waits for the file. */
  readonly isWanted: () => boolean
}

/** Reads all notices that a search finds, up to a number of them; other work runs in between. */
async function findAll(
  searched: Searched,
  wanted: Wanted,
  { most, isWanted }: { most: number; isWanted: () => boolean },
): Promise<{ readonly notices: readonly ListedNotice[]; readonly total: number }> {
  const pause = createPause()
  const found: ListedNotice[] = []
  for (let cursor: string | undefined; ; ) {
    const limit = Math.min(PAGE_SIZE, most)
    const { documents, urgent, next, total } = await searchPage(searched, { ...wanted, limit, cursor })
    for (const [index, parts] of documents.entries()) {
      found.push({ ...JSON.parse(Buffer.concat(parts).toString()), ...urgent[index] })
      await pause()
    }
    if (next === null || found.length >= most || !isWanted()) return { notices: found.slice(0, most), total }
    cursor = next
  }
}

/** Returns a calendar (RFC 5545) of the sessions and last days of the notices that a search finds. */
export async function renderCalendar(searched: Searched, wanted: Wanted, about: About): Promise<string> {
  const { company, timeZone, today, deadlines, composeAddress, isWanted } = about
  const { default: ical, ICalCalendarMethod } = await import('ical-generator')
  const since = Date.now() - PAST_DAYS * 24 * HOUR_MS
  // Sessions to come first, whatever the order of the list is: they must not be missing.
  const { notices, total } = await findAll(
    searched,
    { ...wanted, sort: 'next' },
    { most: MAX.calendar, isWanted },
  )
  const calendar = ical({
    name: `Editais de ${company}`,
    description:
      total > notices.length ? `As ${notices.length} sessões mais próximas, de ${total} editais.` : null,
    method: ICalCalendarMethod.PUBLISH,
    prodId: { company: 'editais-sync', product: 'editais', language: 'PT' },
    ttl: 3600,
  })
  const stamp = new Date(searched.snapshot().asOf)
  for (const notice of notices) {
    const id = String(notice.id)
    const named = ['numero', 'orgao'].flatMap(name => showText(notice, name, MAX_TITLE) ?? []).join(' · ')
    const event = (kind: string, title: string, when: { start: Date; isDay: boolean }, more: string | null) =>
      calendar.createEvent({
        ...{ id: `${kind}-${id}@${company}.editais-sync`, stamp, start: when.start, allDay: when.isDay },
        ...(when.isDay ? {} : { end: new Date(when.start.getTime() + HOUR_MS) }),
        summary: `${title}: ${named}`,
        // No verdict: the address of a calendar is in the hands of others.
        description: [showText(notice, 'objeto', MAX_TEXT), more].filter(part => part !== null).join('\n'),
        url: composeAddress(id),
      })
    const session = String(notice.data_sessao)
    const [time, local] = [readTime(session, timeZone), parseLocalTime(session, timeZone)]
    if (time !== null && local !== null && local.getTime() >= since) {
      const isDay = local.getTime() % (24 * HOUR_MS) === 0
      const start = isDay ? local : new Date(Number(time.micros / 1000n))
      event('sessao', 'Sessão', { start, isDay }, null)
    }
    for (const [act, title] of ACTS) {
      const last = findLastDay(deadlines.get(id), act, today)
      if (last) event(act, title, { start: last.day, isDay: true }, last.why)
    }
  }
  return calendar.toString()
}

const ACTS = [
  ['impugnar', 'Último dia para impugnar'],
  ['esclarecer', 'Último dia para pedir esclarecimento'],
] as const

type Value = string | number | Date | null
type Kind = 'text' | 'count' | 'money' | 'day' | 'time'
type Column = readonly [
  title: string,
  kind: Kind,
  value: (notice: ListedNotice, about: About) => Value,
  width: number,
]

/** The columns of a table, in their order. Days and local times are dates whose parts in UTC they have. */
const COLUMNS: readonly Column[] = [
  ['Número', 'text', notice => showText(notice, 'numero', MAX_TEXT), 16],
  ['Órgão', 'text', notice => showText(notice, 'orgao', MAX_TEXT), 40],
  ['UF', 'text', notice => showText(notice, 'uf', MAX_TEXT), 6],
  ['Modalidade', 'text', notice => showText(notice, 'modalidade', MAX_TEXT), 20],
  ['Objeto', 'text', notice => showText(notice, 'objeto', MAX_TEXT), 60],
  ['Fase', 'text', ({ status }) => namePhase(status), 12],
  ['Parecer', 'text', ({ verdict }) => nameVerdict(readPart(verdict).recommendation), 16],
  ['Sessão', 'time', ({ data_sessao }, { timeZone }) => parseLocalTime(String(data_sessao), timeZone), 17],
  ['Impugnar até', 'day', (notice, about) => findLastDayToAct(notice, 'impugnar', about), 12],
  ['Pedir esclarecimento até', 'day', (notice, about) => findLastDayToAct(notice, 'esclarecer', about), 14],
  ['Valor estimado', 'money', ({ valor_estimado: value }) => (typeof value === 'number' ? value : null), 16],
  ['Requisitos vermelhos', 'count', ({ reds = 0 }) => reds, 12],
  ['Alertas graves', 'count', ({ graves = 0 }) => graves, 10],
  [
    'Participação confirmada',
    'text',
    ({ participation_confirmed: is }) => (typeof is === 'boolean' ? formatYesOrNo(is) : null),
    14,
  ],
  ['Página', 'text', ({ id }, { composeAddress }) => composeAddress(String(id)), 40],
]

/** Returns what a search finds as CSV in Brazilian form: semicolons, decimal commas, days before months. */
export async function renderCsv(searched: Searched, wanted: Wanted, about: About): Promise<string> {
  const { formatCsvValue } = await import('hucre/csv')
  const { notices } = await findAll(searched, wanted, { most: MAX.table, isWanted: about.isWanted })
  const pause = createPause()
  const rows = [`${BYTE_ORDER_MARK}${COLUMNS.map(([title]) => title).join(';')}`]
  const cell = (value: Value, kind: Kind) => formatCsvValue(written(value, kind), { delimiter: ';' })
  for (const notice of notices) {
    rows.push(COLUMNS.map(([, kind, value]) => cell(value(notice, about), kind)).join(';'))
    await pause()
  }
  return `${rows.join('\r\n')}\r\n`
}

function written(value: Value, kind: Kind): string {
  if (value === null) return ''
  if (value instanceof Date)
    return kind === 'day' ? formatDay(value) : formatDayAndTime(value).replace(' às', '')
  if (typeof value !== 'number') return asText(value)
  return kind === 'money' ? value.toFixed(2).replace('.', ',') : String(value)
}

const FORMATS: Readonly<Partial<Record<Kind, { readonly numFmt: string }>>> = {
  money: { numFmt: '#,##0.00' },
  day: { numFmt: 'dd/mm/yyyy' },
  time: { numFmt: 'dd/mm/yyyy hh:mm' },
}

/** Returns the first notices that a search finds as a workbook, in which dates and amounts have their types. */
export async function renderWorkbook(searched: Searched, wanted: Wanted, about: About): Promise<Uint8Array> {
  const { rangeRef, writeXlsx } = await import('hucre/xlsx')
  const { isWanted } = about
  const { notices, total } = await findAll(searched, wanted, { most: MAX.workbook, isWanted })
  const rows = notices.map(notice =>
    COLUMNS.map(([, , value]) => {
      const one = value(notice, about)
      return typeof one === 'string' ? cleanForWorkbook(one) : one
    }),
  )
  const left = total - notices.length
  const note = left > 0 ? [[`Mais ${left} editais estão no arquivo CSV da mesma busca.`]] : []
  const name = 'Editais'
  return await writeXlsx({
    namedRanges: printedHeadings([{ name }]),
    sheets: [
      {
        name,
        columns: COLUMNS.map(([, kind, , width]) => ({ width, ...FORMATS[kind] })),
        rows: [COLUMNS.map(([title]) => title), ...rows, ...note],
        cells: new Map(
          COLUMNS.map(([value], column) => [`0,${column}`, { value, style: { font: { bold: true } } }]),
        ),
        freezePane: { rows: 1 },
        pageSetup: PRINTED_SHEET,
        autoFilter: { range: rangeRef(0, 0, rows.length, COLUMNS.length - 1) },
      },
    ],
  })
}

/** Texts that spreadsheet programs could take for a number or a date are short, and have a digit. */
const MAX_CONVERTED = 60
const RUN = new RegExp(FORMULA, 'u')

/** Returns a text that a spreadsheet program shows as it is, and does not run. */
function asText(shown: string): string {
  if (RUN.test(shown)) return `'${shown}`
  return /\d/.test(shown) && shown.length <= MAX_CONVERTED ? `="${shown.replaceAll('"', '""')}"` : shown
}

function findLastDayToAct(
  { id }: ListedNotice,
  act: (typeof ACTS)[number][0],
  { deadlines, today }: About,
): Date | null {
  return findLastDay(deadlines.get(String(id)), act, today)?.day ?? null
}
