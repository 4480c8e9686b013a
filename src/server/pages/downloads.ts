import ical, { ICalCalendarMethod } from 'ical-generator'
import { localTimeOf } from '#schema/times.ts'
import { createPause } from '#src/lib/concurrency.ts'
import { day, dayAndTime, line } from '#src/present/text/format.ts'
import { namePhase, nameVerdict } from '#src/present/text/names.ts'
import { type Searched, type SearchParameters, searchPage } from '#src/server/search_page.ts'
import type { ListedNotice } from './list_page.ts'
import { type LastDays, timeIn } from './today.ts'

/** Files of the notices that a search finds: a calendar of sessions and last days, and a table for spreadsheet programs. */

/** Notices of a file: programs read a calendar whole, and again each hour. */
const MAX = { calendar: 500, table: 20_000 }
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

type Cell = (notice: ListedNotice, about: About) => string | null

/** The columns of a table, in their order. */
const COLUMNS: readonly (readonly [title: string, cell: Cell])[] = [
  ['Número', ({ numero }) => cellOf(numero)],
  ['Órgão', ({ orgao }) => cellOf(orgao)],
  ['UF', ({ uf }) => cellOf(uf)],
  ['Modalidade', ({ modalidade }) => cellOf(modalidade)],
  ['Objeto', ({ objeto }) => cellOf(objeto)],
  ['Fase', ({ status }) => cellOf(namePhase(status))],
  ['Parecer', notice => cellOf(nameVerdict(verdictOf(notice)))],
  ['Sessão', ({ data_sessao }, { timeZone }) => timeCell(localTimeOf(String(data_sessao), timeZone))],
  ['Impugnar até', ({ id }, { deadlines }) => dayOf(deadlines.get(String(id))?.impugnar)],
  ['Pedir esclarecimento até', ({ id }, { deadlines }) => dayOf(deadlines.get(String(id))?.esclarecer)],
  [
    'Valor estimado',
    ({ valor_estimado: value }) => (typeof value === 'number' ? String(value).replace('.', ',') : null),
  ],
  ['Requisitos vermelhos', ({ reds }) => String(reds ?? 0)],
  ['Alertas graves', ({ graves }) => String(graves ?? 0)],
  [
    'Participação confirmada',
    ({ participation_confirmed: is }) => (is === true ? 'sim' : is === false ? 'não' : null),
  ],
  ['ID no PNCP', ({ pncp_id }) => cellOf(pncp_id)],
  ['Página', ({ id }, { addressOf }) => addressOf(String(id))],
]

/** Returns what a search finds as CSV in Brazilian form: semicolons, decimal commas, days before months. */
export async function renderCsv(searched: Searched, wanted: Wanted, about: About): Promise<string> {
  const { notices } = await findAll(searched, wanted, { most: MAX.table, isWanted: about.isWanted })
  const pause = createPause()
  // With the mark by which Excel recognizes UTF-8.
  const rows = [`\uFEFF${COLUMNS.map(([title]) => title).join(';')}`]
  for (const notice of notices) {
    rows.push(COLUMNS.map(([, cell]) => quoted(cell(notice, about) ?? '')).join(';'))
    await pause()
  }
  return `${rows.join('\r\n')}\r\n`
}

function quoted(cell: string): string {
  return /[";\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}

/** Texts that spreadsheet programs could take for a number or a date are short, and have a digit. */
const MAX_CONVERTED = 60
const FORMULA = /^[\s\p{Z}\p{C}]*[=+@＝＋＠－-]/u

/** Returns a text that a spreadsheet program shows as it is, and does not run. */
function cellOf(value: unknown): string | null {
  const shown = text(value, MAX_TEXT)
  if (shown === null) return null
  if (FORMULA.test(shown)) return `'${shown}`
  return /\d/.test(shown) && shown.length <= MAX_CONVERTED ? `="${shown.replaceAll('"', '""')}"` : shown
}

function timeCell(time: Date | null): string | null {
  return time === null ? null : dayAndTime(time).replace(' às', '')
}

function dayOf(value: unknown): string | null {
  return typeof value === 'string' ? day(timeIn(value)) : null
}

function verdictOf({ verdict }: ListedNotice): unknown {
  return (verdict as { readonly recommendation?: unknown } | undefined)?.recommendation
}

function text(value: unknown, most: number): string | null {
  return typeof value === 'string' ? line(value, most) : null
}
