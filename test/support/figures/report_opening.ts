import {
  fitInLine,
  formatDayAndMonth,
  formatDayAndTime,
  formatDistance,
  formatMoney,
  formatPlural,
  formatShortMoney,
  formatWholeMoney,
  number,
} from '#src/present/text/format.ts'
import { inUtc, localDay, mondayOf } from './calendar.ts'
import { labelOf } from './card.ts'
import { worthOf } from './lists.ts'
import type { Notice, Picture } from './picture.ts'
import { dayOf, joined, momentOf, more, nameOf, sentences, table } from './report_lines.ts'
import { decisionsOf, newsOf } from './today.ts'

/** The first parts of the report: decisions, changes, weeks. */

const DECISIONS = 6
const NEWS = 8
const WEEKS = 12
const OBJECT_CHARACTERS = 120
const DAY_MS = 86_400_000

export function decisions(picture: Picture): string[] {
  const all = decisionsOf(picture)
  const [today, soon] = [true, false].map(isToday => all.filter(({ left }) => (left === 0) === isToday))
  const part = (when: string, those: typeof all = []) =>
    those.length === 0
      ? []
      : [
          ...table(
            `${when}${those.length > DECISIONS ? `: ${DECISIONS} de ${number(those.length)}` : ''}`,
            'Até | Edital | Decisão | Parecer e análise | Valor estimado | Sessão',
            those
              .slice(0, DECISIONS)
              .map(({ notice, until, left, parts }) => [
                `${dayOf(until)} ${formatDistance(left)}`,
                `${nameOf(notice)} ${fitInLine(notice.objeto, OBJECT_CHARACTERS) ?? ''}`,
                joined(parts),
                joined([labelOf(notice.recommendation), labelOf(notice.level)]),
                formatMoney(notice.value),
                formatDayAndTime(notice.session && inUtc(notice.session)),
              ]),
          ),
          ...more(those.length - DECISIONS, 'edital', 'editais'),
        ]
  return [
    ...sentences(
      `${formatPlural(today?.length ?? 0, 'edital espera', 'editais esperam')} uma decisão hoje; ${formatPlural(soon?.length ?? 0, 'edital', 'editais')}, nos próximos dias.`,
    ),
    ...part('Hoje', today),
    ...part('Nos próximos dias', soon),
    ...sentences(
      'Editais em andamento que esperam uma decisão: recomendados, com sessão em 7 dias e sem confirmação; confirmados para uma dessas sessões, com requisito vermelho; ou com alerta crítico ou alto cujo prazo acaba em 5 dias.',
    ),
  ]
}

export function changes(picture: Picture): string[] {
  const { now, history } = picture
  const isOld = now.getTime() - history.lastGoodAt.getTime() > DAY_MS
  const until = isOld ? history.lastGoodAt : now
  const lately = (days: number) => {
    const since = until.getTime() - days * DAY_MS
    return newsOf(picture).filter(({ at }) => at <= until && at.getTime() > since)
  }
  const count = (days: number, wanted: string) =>
    number(new Set(lately(days).flatMap(({ id, kind }) => (kind === wanted ? [id] : []))).size)
  const rows = [
    ['Novos editais', 'Novo edital'],
    ['Saíram da lista', 'Saiu da lista'],
    ['Mudaram de fase', 'Mudou de fase'],
    ...['Sessão antecipada', 'Sessão remarcada', 'Objeto alterado', 'Valor alterado', 'Parecer alterado'].map(
      name => [name, name] as const,
    ),
  ] as const
  const end = `Até a última leitura da lista, ${momentOf(until)}: o que mudou depois não se sabe.`
  if (lately(7).length === 0)
    return sentences(`Nada mudou ${isOld ? 'em' : 'nos últimos'} 7 dias.`, isOld && end)
  const heads = isOld ? 'Mudança | 24 horas | 7 dias' : 'Mudança | Últimas 24 horas | Últimos 7 dias'
  const cells = rows.map(([name, kind]) => [name, count(1, kind), count(7, kind)])
  const changed = lately(7).filter(({ kind }) => kind !== 'Novo edital')
  return [
    ...table('Editais que mudaram', heads, cells),
    ...sentences(isOld && end),
    ...(changed.length === 0
      ? []
      : table(
          'O que mudou em cada edital',
          'Visto em | Edital | Mudança | De | Para | Impugnar até',
          changed
            .slice(0, NEWS)
            .map(({ kind, from, to, at, notice, contest }) => [
              dayOf(localDay(at)),
              `${nameOf(notice)} ${fitInLine(notice.objeto, OBJECT_CHARACTERS) ?? ''}`,
              ...[kind, from, to],
              contest && dayOf(contest),
            ]),
        )),
    ...more(changed.length - NEWS, 'mudança', 'mudanças'),
  ]
}

type Week = {
  readonly monday: Temporal.PlainDate
  readonly arrived: readonly Notice[]
  readonly ready: number
  readonly discarded: number
}

function weeksOf({ today, live, moves }: Picture): Week[] {
  const isIn = (monday: Temporal.PlainDate, at: Date) => mondayOf(localDay(at)).equals(monday)
  return Array.from({ length: WEEKS }, (_, index) => {
    const monday = mondayOf(today).subtract({ days: 7 * (WEEKS - 1 - index) })
    const moved = (status: string) =>
      new Set(moves.filter(({ to, at }) => to === status && isIn(monday, at)).map(({ id }) => id)).size
    return {
      monday,
      arrived: live.filter(({ createdAt }) => isIn(monday, createdAt)),
      ready: moved('ready'),
      discarded: moved('discarded'),
    }
  })
}

const label = ({ monday }: Week) => formatDayAndMonth(inUtc(monday))

export function weeks(picture: Picture): string[] {
  const all = weeksOf(picture)
  const arrived = all.flatMap(({ arrived }) => arrived)
  return [
    ...sentences(
      `${formatPlural(arrived.length, 'edital novo', 'editais novos')} em 12 semanas, no valor de ${formatShortMoney(worthOf(arrived))}`,
      `Editais novos por semana: ${all.map(week => `${label(week)} ${number(week.arrived.length)}`).join(', ')}.`,
    ),
    ...table(
      'Por semana',
      'Semana de | Novos | Valor dos novos | Prontos | Descartados',
      all.map(({ monday, arrived, ready, discarded }) => [
        dayOf(monday),
        number(arrived.length),
        formatWholeMoney(worthOf(arrived)),
        number(ready),
        number(discarded),
      ]),
    ),
  ]
}

/** The texts in the drawing of the weeks: the days below the columns, then the numbers above them. */
export function weeksDrawing(picture: Picture): string[] {
  const all = weeksOf(picture)
  return [...all.map(label), ...all.map(({ arrived }) => number(arrived.length)).filter(text => text !== '0')]
}
