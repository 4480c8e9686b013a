import ical, { ICalCalendarMethod } from 'ical-generator'
import { isPlausible, localTimeOf } from '#schema/times.ts'
import { createPause } from '#src/lib/concurrency.ts'
import { workbookText } from '#src/present/text/cells.ts'
import { day, dayAndTime, line } from '#src/present/text/format.ts'
import { namePhase, nameVerdict } from '#src/present/text/names.ts'
import { type Searched, type SearchParameters, searchPage } from '#src/server/search_page.ts'
import type { ListedNotice } from './list_page.ts'
import { yesOrNo } from './show.ts'
import { type LastDays, timeIn } from './today.ts'

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
  readonly deadlines: LastDays
  /** The address of a notice's page. */
  readonly addressOf: (id: string) => string
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
  const { company, timeZone, deadlines, addressOf, isWanted } = about
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
    const named = [notice.numero, notice.orgao].flatMap(part => text(part, MAX_TITLE) ?? []).join(' · ')
    const event = (kind: string, title: string, when: { start: Date; isDay: boolean }, more: string | null) =>
      calendar.createEvent({
        ...{ id: `${kind}-${id}@${company}.editais-sync`, stamp, start: when.start, allDay: when.isDay },
        ...(when.isDay ? {} : { end: new Date(when.start.getTime() + HOUR_MS) }),
        summary: `${title}: ${named}`,
        // No verdict: the address of a calendar is in the hands of others.
        description: [text(notice.objeto, MAX_TEXT), more].filter(part => part !== null).join('\n'),
        url: addressOf(id),
      })
    const local = typeof notice.data_sessao === 'string' ? localTimeOf(notice.data_sessao, timeZone) : null
    if (local !== null && local.getTime() >= since) {
      const isDay = local.getTime() % (24 * HOUR_MS) === 0
      const start = isDay ? local : new Date(instantOf(local, timeZone))
      event('sessao', 'Sessão', { start, isDay }, null)
    }
    const dated = deadlines.get(id)
    for (const [act, title] of ACTS) {
      if (Number(dated?.[`dias_${act}`] ?? -1) < 0) continue
      const start = timeIn(String(dated?.[act]))
      const why = [dated?.[`regra_${act}`], dated?.[`certeza_${act}`]].flatMap(
        part => text(part, MAX_TITLE) ?? [],
      )
      event(act, title, { start, isDay: true }, why.join(' · '))
    }
  }
  return calendar.toString()
}

const ACTS = [
  ['impugnar', 'Último dia para impugnar'],
  ['esclarecer', 'Último dia para pedir esclarecimento'],
] as const

/** Returns the instant of a local time, whose parts are those of the date in UTC. */
function instantOf(local: Date, timeZone: string): number {
  return Temporal.PlainDateTime.from(local.toISOString().slice(0, -1)).toZonedDateTime(timeZone)
    .epochMilliseconds
}

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
  ['Número', 'text', ({ numero }) => text(numero, MAX_TEXT), 16],
  ['Órgão', 'text', ({ orgao }) => text(orgao, MAX_TEXT), 40],
  ['UF', 'text', ({ uf }) => text(uf, MAX_TEXT), 6],
  ['Modalidade', 'text', ({ modalidade }) => text(modalidade, MAX_TEXT), 20],
  ['Objeto', 'text', ({ objeto }) => text(objeto, MAX_TEXT), 60],
  ['Fase', 'text', ({ status }) => namePhase(status), 12],
  ['Parecer', 'text', notice => nameVerdict(verdictOf(notice)), 16],
  ['Sessão', 'time', ({ data_sessao }, { timeZone }) => localTimeOf(String(data_sessao), timeZone), 17],
  ['Impugnar até', 'day', ({ id }, { deadlines }) => dayOf(deadlines.get(String(id))?.impugnar), 12],
  [
    'Pedir esclarecimento até',
    'day',
    ({ id }, { deadlines }) => dayOf(deadlines.get(String(id))?.esclarecer),
    14,
  ],
  ['Valor estimado', 'money', ({ valor_estimado: value }) => (typeof value === 'number' ? value : null), 16],
  ['Requisitos vermelhos', 'count', ({ reds = 0 }) => reds, 12],
  ['Alertas graves', 'count', ({ graves = 0 }) => graves, 10],
  [
    'Participação confirmada',
    'text',
    ({ participation_confirmed: is }) => (typeof is === 'boolean' ? yesOrNo(is) : null),
    14,
  ],
  ['ID no PNCP', 'text', ({ pncp_id }) => text(pncp_id, MAX_TEXT), 30],
  ['Página', 'text', ({ id }, { addressOf }) => addressOf(String(id)), 40],
]

/** Returns what a search finds as CSV in Brazilian form: semicolons, decimal commas, days before months. */
export async function renderCsv(searched: Searched, wanted: Wanted, about: About): Promise<string> {
  const { notices } = await findAll(searched, wanted, { most: MAX.table, isWanted: about.isWanted })
  const pause = createPause()
  // With the mark by which Excel recognizes UTF-8.
  const rows = [`\uFEFF${COLUMNS.map(([title]) => title).join(';')}`]
  for (const notice of notices) {
    rows.push(COLUMNS.map(([, kind, value]) => quoted(written(value(notice, about), kind))).join(';'))
    await pause()
  }
  return `${rows.join('\r\n')}\r\n`
}

function written(value: Value, kind: Kind): string {
  if (value === null) return ''
  if (value instanceof Date) return kind === 'day' ? day(value) : dayAndTime(value).replace(' às', '')
  return typeof value === 'number' ? String(value).replace('.', ',') : asText(value)
}

const FORMATS: Readonly<Partial<Record<Kind, string>>> = {
  money: '#,##0.00',
  day: 'dd/mm/yyyy',
  time: 'dd/mm/yyyy hh:mm',
}

/** Returns the first notices that a search finds as a workbook, in which dates and amounts have their types. */
export async function renderWorkbook(searched: Searched, wanted: Wanted, about: About): Promise<Uint8Array> {
  const { writeXlsx } = await import('hucre/xlsx')
  const { isWanted } = about
  const { notices, total } = await findAll(searched, wanted, { most: MAX.workbook, isWanted })
  const rows = notices.map(notice =>
    COLUMNS.map(([, , value]) => {
      const one = value(notice, about)
      return typeof one === 'string'
        ? workbookText(one)
        : one instanceof Date && !isPlausible(one)
          ? null
          : one
    }),
  )
  const left = total - notices.length
  const note = left > 0 ? [[`Mais ${left} editais estão no arquivo CSV da mesma busca.`]] : []
  return await writeXlsx({
    sheets: [
      {
        name: 'Editais',
        columns: COLUMNS.map(([, kind, , width]) => ({ width, numFmt: FORMATS[kind] ?? 'General' })),
        rows: [COLUMNS.map(([title]) => title), ...rows, ...note],
        cells: new Map(
          COLUMNS.map(([value], column) => [`0,${column}`, { value, style: { font: { bold: true } } }]),
        ),
        freezePane: { rows: 1 },
        pageSetup: {
          orientation: 'landscape',
          paperSize: 'a4',
          fitToPage: true,
          fitToWidth: 1,
          fitToHeight: 0,
          printTitlesRow: '$1:$1',
        },
        autoFilter: { range: `A1:P${rows.length + 1}` },
      },
    ],
  })
}

function quoted(cell: string): string {
  return /[";\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}

/** Texts that spreadsheet programs could take for a number or a date are short, and have a digit. */
const MAX_CONVERTED = 60
const FORMULA = /^[\s\p{Z}\p{C}]*[=+@＝＋＠－-]/u

/** Returns a text that a spreadsheet program shows as it is, and does not run. */
function asText(shown: string): string {
  if (FORMULA.test(shown)) return `'${shown}`
  return /\d/.test(shown) && shown.length <= MAX_CONVERTED ? `="${shown.replaceAll('"', '""')}"` : shown
}

function dayOf(value: unknown): Date | null {
  return typeof value === 'string' ? timeIn(value) : null
}

function verdictOf({ verdict }: ListedNotice): unknown {
  return (verdict as { readonly recommendation?: unknown } | undefined)?.recommendation
}

function text(value: unknown, most: number): string | null {
  return typeof value === 'string' ? line(value, most) : null
}
