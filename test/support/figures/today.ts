import { down, known, sorted } from './arithmetic.ts'
import { businessDaysBefore, daysBetween, localDay } from './calendar.ts'
import { brief, type Card, date, labelOf, noticeNameOf, objectOf } from './card.ts'
import { isRecommended } from './decisions.ts'
import {
  alertsOf,
  coming,
  countedOnce,
  daysTo,
  isGrave,
  isRisk,
  requirementsOf,
  sessionStateOf,
  sessionsAhead,
  worthOf,
} from './lists.ts'
import { type Notice, type Picture, phaseOf } from './picture.ts'

/** The figures of the dashboard *Hoje*: what to decide, and what is new. */

const SOON = 7
const CONTEST_DAYS = 5
const DAY_MS = 86_400_000

const buyer = ({ orgao, uf }: Notice) => ({ Órgão: brief(orgao, 50), UF: uf })
const named = (notice: Notice) => ({ ...buyer(notice), Objeto: objectOf(notice), PNCP: notice.url })
const isRed = ({ colour }: { readonly colour: string | null }) => colour === 'red'
const counted = (count: number, one: string, more: string) => `${count} ${count === 1 ? one : more}`

type Decision = {
  readonly notice: Notice
  readonly until: Temporal.PlainDate
  readonly left: number
  /** What to decide, part by part. */
  readonly parts: readonly string[]
}

function decisionOf(notice: Notice, picture: Picture): Decision | null {
  const { sessionDay, requirements, confirmed } = notice
  const isFuture = sessionDay !== null && sessionStateOf(notice, picture) === 'futura'
  const near = isFuture && daysTo(sessionDay, picture) < SOON
  const red = requirements.filter(isRed).length
  const due = notice.alerts.flatMap(alert => {
    const left = alert.deadline && daysTo(alert.deadline, picture)
    const isDue = left !== null && left >= 0 && left < CONTEST_DAYS && isGrave(alert, ['critical', 'high'])
    return isDue && alert.deadline ? [{ deadline: alert.deadline, action: alert.action }] : []
  })
  const asking = (wanted: string) => due.filter(({ action }) => action === wanted).length
  const grave = (alerts: number) => counted(alerts, 'alerta grave', 'alertas graves')
  const confirm = near && !confirmed && isRecommended(notice)
  const qualify = near && confirmed && red > 0
  // A proposal is ready before the session.
  const eve = sessionDay && businessDaysBefore(sessionDay, 1, { uf: null, withOptional: false })
  const days = known([confirm || qualify ? eve : null, ...due.map(({ deadline }) => deadline)])
  const [first] = sorted(days, day => day.toString())
  const until = first && daysTo(first, picture) < 0 ? picture.today : first
  if (!until) return null
  const parts = [
    confirm && 'confirmar ou desistir',
    qualify && counted(red, 'requisito vermelho', 'requisitos vermelhos'),
    asking('Impugnação') > 0 && `impugnar: ${grave(asking('Impugnação'))}`,
    asking('Esclarecimento') > 0 && `pedir esclarecimento: ${grave(asking('Esclarecimento'))}`,
  ]
  return { notice, until, left: daysTo(until, picture), parts: parts.filter(part => part !== false) }
}

export function decisionsOf(picture: Picture): Decision[] {
  return sorted(
    known(picture.open.map(notice => decisionOf(notice, picture))),
    ({ until }) => until.toString(),
    down(({ notice }) => notice.value),
    ({ notice }) => notice.id,
  )
}

const CORRECTED = ['Sessão antecipada', 'Sessão remarcada', 'Objeto alterado', 'Valor alterado']
const KINDS = [
  ...['Sessão antecipada', 'Sessão remarcada', 'Parecer alterado', 'Objeto alterado', 'Valor alterado'],
  ...['Saiu da lista', 'Novo edital', 'Mudou de fase'],
]

/** Every change that was seen: the latest day first, and what matters most. */
export function newsOf(picture: Picture) {
  const { all, live, moves, newVerdicts, history } = picture
  const followed = [...history.followed]
  const changes = followed.flatMap(([id, { changes }]) => changes.map(change => ({ id, ...change })))
  // What the first reading found is as old as the API says.
  const arrived = ({ id, createdAt }: Notice) => {
    const seenAt = history.followed.get(id)?.phases[0]?.since ?? createdAt
    return seenAt > history.firstGoodAt ? seenAt : createdAt
  }
  const news = [
    ...live.map(notice => ({
      ...{ id: notice.id, kind: 'Novo edital', from: null, to: notice.phase.name },
      at: arrived(notice),
    })),
    ...followed.flatMap(([id, { goneAt: at }]) =>
      at ? [{ id, kind: 'Saiu da lista', from: null, to: null, at }] : [],
    ),
    ...moves.map(({ id, from, to, at }) => ({
      ...{ id, kind: 'Mudou de fase', at },
      ...{ from: phaseOf(from).name, to: phaseOf(to).name },
    })),
    ...changes,
    ...newVerdicts.map(({ noticeId, from, to, at }) => ({
      ...{ id: noticeId, kind: 'Parecer alterado', at },
      ...{ from: labelOf(from) ?? 'sem parecer', to: labelOf(to) ?? 'sem parecer' },
    })),
  ]
  return sorted(
    news.flatMap(one => {
      const notice = all.find(({ id }) => id === one.id)
      const isCorrection =
        CORRECTED.includes(one.kind) && Boolean(notice?.judgedAt && one.at > notice.judgedAt)
      return notice ? [{ ...one, notice, isCorrection, contest: contestOf(notice, picture) }] : []
    }),
    ({ at }) => -localDay(at).toZonedDateTime('UTC').epochMilliseconds,
    ({ notice }) => Number(!notice.phase.open),
    ({ kind }) => KINDS.indexOf(kind),
    down(({ at }) => at.getTime()),
    ({ id }) => id,
  )
}

/** The last day to contest a notice in progress, if it is still to come. */
function contestOf(notice: Notice, picture: Picture): Temporal.PlainDate | null {
  const day = picture.open.some(({ id }) => id === notice.id) ? (notice.contest?.day ?? null) : null
  const isOver = sessionStateOf(notice, picture) === 'passada' || (day !== null && daysTo(day, picture) < 0)
  return isOver ? null : day
}

function newsRow({ kind, from, to, at, notice, contest }: ReturnType<typeof newsOf>[number]) {
  return {
    'Visto em': date(localDay(at)),
    Mudança: kind,
    De: brief(from, 60),
    Para: brief(to, 60),
    'Impugnar até': date(contest),
    ...named(notice),
  }
}

const decisionRows = (picture: Picture, isToday: boolean) =>
  decisionsOf(picture)
    .filter(({ left }) => (left === 0) === isToday)
    .slice(0, 50)
    .map(({ notice, until, left, parts }) => ({
      Até: date(until),
      Dias: left,
      Decisão: parts.join('; '),
      Parecer: labelOf(notice.recommendation),
      Análise: labelOf(notice.level),
      ...named(notice),
      Valor: notice.value,
      Sessão: date(notice.session),
    }))

export const todayCards: Readonly<Record<string, Card>> = {
  sessoes_7_dias: picture => [{ Sessões: sessionsAhead(picture, 7).length }],

  sessoes_sem_confirmacao: picture => [
    { Sessões: sessionsAhead(picture, 7).filter(({ confirmed }) => !confirmed).length },
  ],

  impugnacoes_5_dias: picture => {
    const due = alertsOf(picture.open).filter(({ action, deadline, type }) => {
      const left = deadline && daysTo(deadline, picture)
      return isRisk({ type }) && action === 'Impugnação' && left !== null && left >= 0 && left < 5
    })
    return [{ Editais: new Set(due.map(({ notice }) => notice.id)).size }]
  },

  requisitos_vermelhos: picture => [
    { Requisitos: requirementsOf(coming(picture.open, picture)).filter(isRed).length },
  ],

  decisoes: picture => decisionRows(picture, true),

  decisoes_proximas: picture => decisionRows(picture, false),

  sessoes_da_semana: picture =>
    sorted(
      sessionsAhead(picture, SOON),
      ({ session }) => session.toString(),
      ({ id }) => id,
    )
      .slice(0, 50)
      .map(notice => ({
        Sessão: date(notice.session),
        Dias: daysTo(notice.sessionDay, picture),
        ...named(notice),
        Valor: notice.value,
        Parecer: labelOf(notice.recommendation),
        Confirmada: notice.confirmed ? 'sim' : 'não',
        Vermelhos: notice.requirements.filter(isRed).length,
      })),

  prazos_da_semana: picture =>
    sorted(
      alertsOf(picture.open).flatMap(alert => {
        const left = alert.deadline && daysTo(alert.deadline, picture)
        return left !== null && left >= 0 && left < SOON ? [{ ...alert, left }] : []
      }),
      ({ left }) => left,
      alert => Number(!isRisk(alert)),
      ({ severityOrder }) => severityOrder,
      ({ notice }) => notice.id,
      ({ ordinal }) => ordinal,
    )
      .slice(0, 50)
      .map(({ notice, left, ...alert }) => ({
        Prazo: date(alert.deadline),
        Dias: left,
        Certeza: alert.deadlineCertainty,
        Ação: alert.action,
        Severidade: isRisk(alert) ? alert.severityName : null,
        Alerta: brief(alert.title, 80),
        ...named(notice),
        'Sessão em': date(notice.sessionDay),
      })),

  vermelhos_por_vir: picture =>
    sorted(
      requirementsOf(sessionsAhead(picture)).filter(isRed),
      ({ notice }) => String(notice.sessionDay),
      ({ notice }) => notice.id,
      ({ ordinal }) => ordinal,
    )
      .slice(0, 50)
      .map(({ notice, ...requirement }) => ({
        'Sessão em': date(notice.sessionDay),
        Dias: notice.sessionDay && daysTo(notice.sessionDay, picture),
        Categoria: labelOf(requirement.category),
        Requisito: brief(requirement.title, 80),
        Exigido: brief(requirement.required, 100),
        'Situação atual': brief(requirement.current, 100),
        Edital: noticeNameOf(notice),
        UF: notice.uf,
        PNCP: notice.url,
      })),

  analise_rasa_proxima: picture =>
    sorted(
      sessionsAhead(picture, CONTEST_DAYS).filter(({ level }) => level !== 'deep'),
      ({ session }) => session.toString(),
      ({ id }) => id,
    )
      .slice(0, 50)
      .map(notice => ({
        Sessão: date(notice.session),
        Análise: labelOf(notice.level),
        Parecer: labelOf(notice.recommendation),
        ...named(notice),
        Valor: notice.value,
        Confirmada: notice.confirmed ? 'sim' : 'não',
      })),

  prazos_perdidos: picture =>
    sorted(
      alertsOf(picture.open.filter(notice => sessionStateOf(notice, picture) !== 'passada')).flatMap(
        alert => {
          const ago = alert.deadline && -daysTo(alert.deadline, picture)
          return ago !== null && ago > 0 && isGrave(alert, ['critical', 'high']) ? [{ ...alert, ago }] : []
        },
      ),
      ({ ago }) => ago,
      ({ severityOrder }) => severityOrder,
      ({ notice }) => notice.id,
      ({ ordinal }) => ordinal,
    )
      .slice(0, 50)
      .map(({ notice, ago, ...alert }) => ({
        Prazo: date(alert.deadline),
        'Há (dias)': ago,
        Ação: alert.action,
        Severidade: alert.severityName,
        Alerta: brief(alert.title, 80),
        ...named(notice),
        'Sessão em': date(notice.sessionDay),
      })),

  sessoes_simultaneas: picture => {
    const timed = countedOnce(sessionsAhead(picture)).filter(
      ({ session, sessionDay }) => !session.equals(sessionDay.toPlainDateTime()),
    )
    const times = [...Map.groupBy(timed, ({ session }) => session.toString())].filter(
      ([, all]) => all.length > 1,
    )
    return sorted(times, ([time]) => time)
      .slice(0, 50)
      .map(([, all]) => ({
        Sessão: date(all[0]?.session ?? null),
        Dias: all[0] ? daysTo(all[0].sessionDay, picture) : null,
        Sessões: all.length,
        Confirmadas: all.filter(({ confirmed }) => confirmed).length,
        Valor: all.some(({ value }) => value !== null) ? worthOf(all) : null,
        Órgãos: brief([...new Set(known(all.map(({ orgao }) => orgao)))].sort().join('; '), 120),
      }))
  },

  retificacoes: picture =>
    newsOf({ ...picture, open: picture.live.filter(({ phase }) => phase.open) })
      .filter(
        ({ isCorrection, notice }) => isCorrection && (picture.state === null || notice.uf === picture.state),
      )
      .slice(0, 50)
      .map(one => newsRow(one)),

  sessoes_antecipadas: picture =>
    sorted(
      sessionsAhead(picture).flatMap(notice => {
        const { changes = [] } = picture.history.followed.get(notice.id) ?? {}
        return changes.flatMap(({ kind, sessions: [from, to] = [], at }) =>
          kind === 'Sessão antecipada' && from && to?.equals(notice.session)
            ? [{ from, to, at, notice }]
            : [],
        )
      }),
      ({ to }) => to.toString(),
      ({ notice }) => notice.id,
    )
      .slice(0, 50)
      .map(({ from, to, at, notice }) => ({
        De: date(from),
        Para: date(to),
        'Dias a menos': daysBetween(to.toPlainDate(), from.toPlainDate()),
        'Impugnar até': date(notice.contest?.day ?? null),
        Confirmada: notice.confirmed ? 'sim' : 'não',
        ...named(notice),
        'Visto em': date(localDay(at)),
      })),

  novidades: picture => {
    const { lastGoodAt } = picture.history
    return newsOf({ ...picture, open: picture.live.filter(({ phase }) => phase.open) })
      .filter(({ at }) => at.getTime() > lastGoodAt.getTime() - DAY_MS && at <= lastGoodAt)
      .filter(({ notice }) => picture.state === null || notice.uf === picture.state)
      .slice(0, 100)
      .map(one => newsRow(one))
  },
}
