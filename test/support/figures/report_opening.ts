import {
  dayAndMonth,
  dayAndTime,
  formatMoney,
  formatPlural,
  inDays,
  line,
  number,
  shortMoney,
  wholeMoney,
} from '#src/present/text/format.ts'
import { nameVerdict } from '#src/present/text/names.ts'
import { down, known, sorted } from './arithmetic.ts'
import { inUtc, localDay, mondayOf } from './calendar.ts'
import { isRecommended } from './decisions.ts'
import { daysTo, isGrave, sessionStateOf, worthOf } from './lists.ts'
import type { Notice, Picture } from './picture.ts'
import { dayOf, joined, momentOf, more, nameOf, SOON, sentences, table } from './report_lines.ts'

/** The first parts of the report: decisions, changes, weeks. */

const DECISIONS = 10
const WEEKS = 12
const CONTEST_DAYS = 5
const OBJECT_CHARACTERS = 120
const DAY_MS = 86_400_000

function decisionOf(notice: Notice, picture: Picture) {
  const { sessionDay, requirements, confirmed, recommendation } = notice
  const near = isNear(notice, picture)
  const red = requirements.filter(({ colour }) => colour === 'red').length
  const due = notice.alerts.flatMap(({ deadline, ...alert }) => {
    const left = deadline && daysTo(deadline, picture)
    const isDue = left !== null && left >= 0 && left < CONTEST_DAYS
    return isDue && isGrave({ deadline, ...alert }, ['critical', 'high'])
      ? [{ deadline, action: alert.action }]
      : []
  })
  const asking = (wanted: string) => due.filter(({ action }) => action === wanted).length
  const grave = (alerts: number) => formatPlural(alerts, 'alerta grave', 'alertas graves')
  const confirm = near && !confirmed && isRecommended(notice)
  const qualify = near && confirmed && red > 0
  const days = known([confirm || qualify ? sessionDay : null, ...due.map(({ deadline }) => deadline)])
  const [until] = sorted(days, day => day.toString())
  if (!until) return null
  const reasons = [
    confirm && `confirmar ou desistir: parecer ${nameVerdict(recommendation)}`,
    qualify && formatPlural(red, 'requisito vermelho', 'requisitos vermelhos'),
    asking('Impugnação') > 0 && `impugnar: ${grave(asking('Impugnação'))}`,
    asking('Esclarecimento') > 0 && `pedir esclarecimento: ${grave(asking('Esclarecimento'))}`,
  ]
  return { notice, until, reasons }
}

/** In the next days and not begun; without a time of day, it is not over before its day is. */
function isNear(notice: Notice, picture: Picture): boolean {
  const { sessionDay } = notice
  return (
    sessionDay !== null && sessionStateOf(notice, picture) === 'futura' && daysTo(sessionDay, picture) < SOON
  )
}

export function decisions(picture: Picture): string[] {
  const all = sorted(
    known(picture.open.map(notice => decisionOf(notice, picture))),
    ({ until }) => until.toString(),
    down(({ notice }) => notice.value),
    ({ notice }) => notice.id,
  )
  return [
    ...sentences(`${formatPlural(all.length, 'edital espera', 'editais esperam')} uma decisão.`),
    ...table(
      `O que decidir primeiro${all.length > DECISIONS ? `: ${DECISIONS} de ${number(all.length)}` : ''}`,
      'Até | Edital | Por quê | Valor estimado | Sessão',
      all
        .slice(0, DECISIONS)
        .map(({ notice, until, reasons }) => [
          `${dayOf(until)} ${inDays(daysTo(until, picture))}`,
          `${nameOf(notice)} ${line(notice.objeto, OBJECT_CHARACTERS) ?? ''}`,
          joined(reasons),
          formatMoney(notice.value),
          dayAndTime(notice.session && inUtc(notice.session)),
        ]),
    ),
    ...more(all.length - DECISIONS, 'edital', 'editais'),
    ...sentences(
      'Editais em andamento: recomendados, com sessão nos próximos 7 dias e sem participação confirmada; confirmados, com sessão nesse prazo e requisito vermelho; ou com alerta crítico ou alto cujo prazo acaba nos próximos 5 dias.',
    ),
  ]
}

export function changes(picture: Picture): string[] {
  const { now, live, moves, newVerdicts } = picture
  const { followed: all, lastGoodAt } = picture.history
  const isOld = now.getTime() - lastGoodAt.getTime() > DAY_MS
  const until = isOld ? lastGoodAt : now
  const followed = [...all]
  const gone = followed.map(([id, { goneAt }]) => ({ id, at: goneAt }))
  const changed = (field: string) =>
    followed.flatMap(([id, { changes }]) =>
      changes.filter(change => change.field === field).map(({ at }) => ({ id, at })),
    )
  const within = (events: readonly { readonly id: string; readonly at: Date | null }[], days: number) => {
    const since = until.getTime() - days * DAY_MS
    const recent = events.filter(({ at }) => at && at <= until && at.getTime() > since)
    return number(new Set(recent.map(({ id }) => id)).size)
  }
  const rows = [
    ['Novos editais', live.map(({ id, createdAt }) => ({ id, at: createdAt }))],
    ['Saíram da API', gone],
    ['Mudaram de fase', moves],
    ['Sessão remarcada', changed('data_sessao')],
    ['Valor alterado', changed('valor_estimado')],
    ['Parecer alterado', newVerdicts.map(({ noticeId, at }) => ({ id: noticeId, at }))],
  ] as const
  const end = `Até a última leitura da lista, ${momentOf(until)}: o que mudou depois não se sabe.`
  if (rows.every(([, events]) => within(events, 7) === '0'))
    return sentences(`Nada mudou ${isOld ? 'em' : 'nos últimos'} 7 dias.`, isOld && end)
  const heads = isOld ? 'Mudança | 24 horas | 7 dias' : 'Mudança | Últimas 24 horas | Últimos 7 dias'
  const cells = rows.map(([name, events]) => [name, within(events, 1), within(events, 7)])
  return [...table('Editais que mudaram', heads, cells), ...sentences(isOld && end)]
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

const label = ({ monday }: Week) => dayAndMonth(inUtc(monday))

export function weeks(picture: Picture): string[] {
  const all = weeksOf(picture)
  const arrived = all.flatMap(({ arrived }) => arrived)
  return [
    ...sentences(
      `${formatPlural(arrived.length, 'edital novo', 'editais novos')} em 12 semanas, no valor de ${shortMoney(worthOf(arrived))}.`,
      `Editais novos por semana: ${all.map(week => `${label(week)} ${number(week.arrived.length)}`).join(', ')}.`,
    ),
    ...table(
      'Por semana',
      'Semana de | Novos | Valor dos novos | Prontos | Descartados',
      all.map(({ monday, arrived, ready, discarded }) => [
        dayOf(monday),
        number(arrived.length),
        wholeMoney(worthOf(arrived)),
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
