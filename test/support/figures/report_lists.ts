import {
  fitInLine,
  formatDayAndMonth,
  formatDayAndTime,
  formatDistance,
  formatMoney,
  formatPercent,
  formatPlural,
  formatShortMoney,
  formatWeekday,
  formatWholeMoney,
  NONE,
  number,
  timeOfDay,
} from '#src/present/text/format.ts'
import { nameCategory, nameRisk, nameVerdict } from '#src/present/text/names.ts'
import { down, sorted, sum } from './arithmetic.ts'
import { inUtc } from './calendar.ts'
import { blockersOf, capitalOf, exposureOf } from './decisions.ts'
import {
  alertsOf,
  type Buyer,
  buyersOf,
  bySession,
  coming,
  countedOnce,
  daysTo,
  inDispute,
  isGrave,
  isRisk,
  requirementsOf,
  type Session,
  sessionsAhead,
  worthOf,
} from './lists.ts'
import type { Alert, Notice, Picture } from './picture.ts'
import {
  DAYS_AHEAD,
  dayOf,
  isSoon,
  joined,
  lastDayOf,
  more,
  nameOf,
  SOON,
  sentences,
  table,
} from './report_lines.ts'

/** Maximum length of the lists, and of their texts. */
const LENGTH = { sessions: 15, deadlines: 10, buyers: 10, blockers: 8, stacks: 12 } as const
const CHARACTERS = { name: 80, object: 120, description: 140, code: 30 } as const

export function sessions(picture: Picture): string[] {
  const { today } = picture
  const all = sorted(
    sessionsAhead(picture, DAYS_AHEAD),
    ({ session }) => session.toString(),
    ({ orgao }) => orgao,
    ({ id }) => id,
  )
  if (all.length === 0)
    return sentences(heading, `Nenhuma sessão de edital em andamento até ${lastDayOf(picture)}.`)
  const [first] = all
  const capital = capitalOf(countedOnce(sessionsAhead(picture)))
  const byDay = [...Map.groupBy(all, ({ sessionDay }) => sessionDay.toString())]
  return [
    ...sentences(
      heading,
      `${formatPlural(all.length, 'sessão marcada', 'sessões marcadas')} até ${lastDayOf(picture)}, ${number(sessionsAhead(picture, SOON).length)} nos próximos 7 dias`,
      ...(first
        ? [`A primeira: ${formatDayAndTime(inUtc(first.session))}, ${first.orgao ?? 'órgão não informado'}.`]
        : []),
      `Sessões por dia de ${dayOf(today)} a ${lastDayOf(picture)}: ${byDay.map(([day, those]) => `${formatDayAndMonth(new Date(day))} ${number(those.length)}`).join(', ')}.`,
      `Sessões por dia; em destaque, os próximos 7 dias. As sessões por vir exigem ${formatShortMoney(capital.proposal)} na sessão (garantias de proposta) e ${formatShortMoney(capital.contract + capital.investment)} na assinatura (garantias contratuais e investimento).`,
    ),
    ...table(
      `Próximas sessões${all.length > LENGTH.sessions ? `: as primeiras ${LENGTH.sessions}` : ''}`,
      'Sessão | Edital | Valor estimado | Fase e parecer | Pendências | Impugnar até',
      all.slice(0, LENGTH.sessions).map(session => sessionRow(session, picture)),
    ),
    ...more(all.length - LENGTH.sessions, 'sessão', 'sessões', ` até ${lastDayOf(picture)}`),
  ]
}

const heading = 'Sessões dos próximos 30 dias'

function sessionRow(notice: Session, picture: Picture): (string | null)[] {
  const { session, sessionDay, contest, phase, confirmed, recommendation } = notice
  const local = inUtc(session)
  return [
    `${dayOf(sessionDay)} ${joined([formatWeekday(local), timeOfDay(local)], ', ')} · ${formatDistance(daysTo(sessionDay, picture))}`,
    `${nameOf(notice)} ${joined([fitInLine(notice.modalidade, CHARACTERS.code), fitInLine(notice.objeto, CHARACTERS.object)], ' · ')}`,
    formatMoney(notice.value),
    joined([phase.name, confirmed && 'confirmada', nameVerdict(recommendation)]),
    problemsOf(notice),
    contestOf(contest, picture),
  ]
}

function contestOf(contest: Notice['contest'], picture: Picture): string | null {
  if (contest === null || contest.day === null) return contest?.rule ?? null
  const left = daysTo(contest.day, picture)
  const day =
    left < 0 ? `encerrado em ${dayOf(contest.day)}` : `${dayOf(contest.day)} ${formatDistance(left)}`
  return joined([day, contest.rule, contest.certainty === 'a confirmar' && 'a confirmar'], ' · ')
}

function problemsOf({ requirements, alerts }: Notice): string | null {
  const coloured = (colour: string) =>
    requirements.filter(requirement => requirement.colour === colour).length
  const [red, yellow] = [coloured('red'), coloured('yellow')]
  const grave = (severity: string) => alerts.filter(alert => isGrave(alert, [severity])).length
  const [critical, high] = [grave('critical'), grave('high')]
  return joined([
    red > 0 && formatPlural(red, 'vermelho', 'vermelhos'),
    yellow > 0 && formatPlural(yellow, 'amarelo', 'amarelos'),
    critical > 0 && formatPlural(critical, 'alerta crítico', 'alertas críticos'),
    high > 0 && formatPlural(high, 'alerta alto', 'alertas altos'),
  ])
}

const redOf = (notices: readonly Notice[]) => requirementsOf(notices).filter(({ colour }) => colour === 'red')
/** How many there are, by session: future, past, without a date. */
const inEach = (picture: Picture, what: (notices: readonly Notice[]) => readonly unknown[]) =>
  bySession(picture.open, picture).map(notices => what(notices).length)

/** What counts in no figure: that of notices whose session is past, or has no date. */
function apart(one: string, many: string, [, past = 0, undated = 0]: readonly number[]): string {
  return `À parte: ${formatPlural(past, one, many)} de editais em andamento com sessão passada, ${number(undated)} sem data.`
}

/** The requirements of a category by colour: red, yellow, green, none. */
type Demand = { readonly category: string | null; readonly colours: readonly number[] }

export function demandsOf(picture: Picture): Demand[] {
  const categories = Map.groupBy(requirementsOf(coming(picture.open, picture)), ({ category }) => category)
  const demands = [...categories].map(([category, those]) => {
    const coloured = ['red', 'yellow', 'green'].map(
      colour => those.filter(requirement => requirement.colour === colour).length,
    )
    return { category, colours: [...coloured, those.length - sum(coloured)] }
  })
  return sorted(
    demands,
    ...[0, 1, 2].map(colour => down<Demand>(({ colours }) => colours[colour] ?? 0)),
    ({ category }) => category,
  )
}

export function demands(picture: Picture): string[] {
  const all = demandsOf(picture)
  const requirements = requirementsOf(coming(picture.open, picture))
  const red = redOf(coming(picture.open, picture))
  const yellow = requirements.filter(({ colour }) => colour === 'yellow')
  const notices = new Set(red.map(({ notice }) => notice.id)).size
  const heads = ['Vermelhos', 'Amarelos', 'Verdes', 'Sem avaliação']
  const chart = all
    .slice(0, LENGTH.stacks)
    .map(
      ({ category, colours }) =>
        `${categoryOf(category)} ${colours.map((count, index) => `${number(count)} ${heads[index]?.toLowerCase()}`).join(', ')}`,
    )
  return [
    ...sentences(
      `${formatPlural(red.length, 'requisito vermelho', 'requisitos vermelhos')} em ${formatPlural(notices, 'edital com sessão por vir', 'editais com sessão por vir')}, e ${formatPlural(yellow.length, 'amarelo', 'amarelos')}, de ${formatPlural(requirements.length, 'requisito', 'requisitos')}`,
      apart('requisito vermelho', 'requisitos vermelhos', inEach(picture, redOf)),
      `Requisitos por categoria e cor: ${chart.join('; ')}.`,
    ),
    ...table(
      'Requisitos dos editais com sessão por vir, por categoria e cor',
      `Categoria | ${heads.join(' | ')}`,
      all.map(({ category, colours }) => [categoryOf(category), ...colours.map(number)]),
    ),
    ...blockers(picture),
  ]
}

/** The requirements that block the most value. */
function blockers(picture: Picture): string[] {
  const rows = blockersOf(picture).filter(({ notices }) => notices.length > 0)
  if (rows.length === 0) return []
  return table(
    'O que mais bloqueia: requisitos vermelhos, pelo valor dos editais com sessão por vir',
    'Requisito | Categoria | Editais | Só este falta | Valor bloqueado',
    rows
      .slice(0, LENGTH.blockers)
      .map(({ title, category, notices, alone }) => [
        fitInLine(title, CHARACTERS.object),
        categoryOf(category),
        ...[number(notices.length), number(alone.length), formatWholeMoney(worthOf(notices))],
      ]),
  )
}

/** The alerts of a severity that are not opportunities: risks, and others. */
type Severity = { readonly name: string; readonly kinds: readonly number[] }

export function severitiesOf(picture: Picture): Severity[] {
  const severities = Map.groupBy(
    sorted(
      alertsOf(coming(picture.open, picture)).filter(isRisk),
      ({ severityOrder }) => severityOrder,
      ({ severityName }) => severityName,
    ),
    ({ severityName }) => severityName,
  )
  return [...severities].map(([name, those]) => {
    const risks = those.filter(({ type }) => type === 'risk').length
    const label = name ?? 'sem severidade'
    return {
      name: label.charAt(0).toUpperCase() + label.slice(1),
      kinds: [risks, those.length - risks],
    }
  })
}

export function alerts(picture: Picture): string[] {
  const all = alertsOf(coming(picture.open, picture))
  const due = sorted(
    alertsOf(picture.open).filter(({ deadline }) => deadline && daysTo(deadline, picture) >= 0),
    ({ deadline }) => deadline?.toString() ?? null,
    alert => Number(!isRisk(alert)),
    ({ severityOrder }) => severityOrder,
    ({ notice }) => notice.id,
    ({ ordinal }) => ordinal,
  )
  const soon = due.filter(({ deadline }) => deadline && isSoon(daysTo(deadline, picture)))
  return [
    ...sentences(
      `${formatPlural(all.length, 'alerta', 'alertas')} nos editais com sessão por vir, ${number(all.length - all.filter(isRisk).length)} deles oportunidades`,
      `Prazos de impugnação ou esclarecimento nos próximos 7 dias, também de editais sem data: ${number(soon.length)}.`,
      apart('alerta', 'alertas', inEach(picture, alertsOf)),
      `Alertas por severidade, sem as oportunidades: ${severitiesOf(picture)
        .map(({ name, kinds }) => `${name} ${number(sum(kinds))}`)
        .join(', ')}.`,
    ),
    ...deadlines(due, picture),
    ...more(due.length - LENGTH.deadlines, 'alerta com prazo em aberto', 'alertas com prazo em aberto'),
    ...sentences(
      'Prazo: o que o edital diz ou, na falta, o da lei que ele nomeia (Lei 14.133/2021, art. 164: terceiro dia útil antes da sessão), com feriados nacionais e do estado; na dúvida, o dia mais cedo, a confirmar. Um feriado municipal antecipa o prazo: confira sempre o edital.',
    ),
  ]
}

function deadlines(due: readonly (Alert & { readonly notice: Notice })[], picture: Picture): string[] {
  if (due.length === 0) return []
  const cut = due.length > LENGTH.deadlines ? `: os primeiros ${LENGTH.deadlines}` : ''
  return table(
    `Prazos de impugnação e esclarecimento em aberto${cut}`,
    'Prazo | Alerta | Edital | Fase | Sessão',
    due
      .slice(0, LENGTH.deadlines)
      .map(({ deadline, notice, ...alert }) => [
        deadline &&
          joined(
            [
              `${dayOf(deadline)} ${formatDistance(daysTo(deadline, picture))}`,
              alert.deadlineCertainty === 'a confirmar' && 'a confirmar',
            ],
            ' · ',
          ),
        `${isRisk(alert) ? (alert.severityName ?? NONE) : 'oportunidade'} ${alert.action}: ${fitInLine(alert.title, CHARACTERS.name) ?? 'sem título'} ${fitInLine(alert.description, CHARACTERS.description) ?? ''}`,
        nameOf(notice),
        notice.phase.name,
        dayOf(notice.sessionDay),
      ]),
  )
}

/** The buyers that the report lists, and their total number. */
function buyersInOrder(picture: Picture): Buyer[] {
  return sorted(
    buyersOf(picture),
    down(({ open }) => inDispute(open, picture)),
    down(({ value }) => value),
    down(({ open }) => open.length),
    ({ orgao }) => orgao,
    ({ cnpj }) => cnpj,
  )
}

export function buyers(picture: Picture): string[] {
  const all = buyersInOrder(picture)
  const shown = all.slice(0, LENGTH.buyers)
  const share = sum(shown.map(({ open }) => inDispute(open, picture))) / inDispute(picture.open, picture)
  const cut = all.length > shown.length
  return [
    ...sentences(
      `${formatPlural(all.length, 'órgão', 'órgãos')} com editais em andamento${cut ? `; os ${shown.length} maiores somam ${formatPercent(share)} do valor em disputa` : ''}.`,
    ),
    ...table(
      `Órgãos por valor em disputa${cut ? `: os ${shown.length} maiores` : ''}`,
      'Órgão | Em disputa | Valor em andamento | Em andamento | Todos | Descartados | Risco de pagamento | Próxima sessão',
      shown.map(({ orgao, uf, value, open, all, risk, nextSession }) => [
        joined([fitInLine(orgao, CHARACTERS.name) ?? 'Órgão não informado', uf], ' · '),
        ...[formatWholeMoney(inDispute(open, picture)), formatWholeMoney(value)],
        ...[number(open.length), number(all.length)],
        formatPercent(all.filter(({ phase }) => phase.status === 'discarded').length / all.length),
        ...[riskText(risk), dayOf(nextSession)],
      ]),
    ),
    ...more(all.length - shown.length, 'órgão', 'órgãos'),
    ...table(
      'Editais em andamento por risco de pagamento',
      'Risco | Editais | Confirmados | Valor em andamento | Em disputa',
      exposureOf(picture).map(({ label, notices, confirmed, worth, future }) => [
        label.charAt(0).toUpperCase() + label.slice(1),
        ...[
          number(notices.length),
          number(confirmed.length),
          formatWholeMoney(worth),
          formatWholeMoney(future),
        ],
      ]),
    ),
  ]
}

function riskText(risk: Buyer['risk']): string | null {
  if (!risk?.report || !risk.pricing || risk.report === risk.pricing) return nameRisk(risk?.value ?? null)
  return `${nameRisk(risk.value)} relatório do órgão: ${nameRisk(risk.report)}; precificação: ${nameRisk(risk.pricing)}`
}

/** Lengths of the bars below the buyers' values, in percent of the first. */
export function buyerBars(picture: Picture): number[] {
  const shown = buyersInOrder(picture).slice(0, LENGTH.buyers)
  const [most = 0] = shown.map(({ open }) => inDispute(open, picture))
  return shown.map(({ open }) => Math.round((100 * inDispute(open, picture)) / most))
}

/** The lengths of the bars of each layer, as shares of the sum of all bars. */
export type Bars = Readonly<Record<string, readonly number[]>>

function barsIn(layers: readonly string[], stacks: readonly (readonly number[])[]): Bars {
  const total = sum(stacks.flat())
  return Object.fromEntries(
    layers.map((layer, index) => [layer, stacks.map(counts => (counts[index] ?? 0) / total)]),
  )
}

export function demandBars(picture: Picture): Bars {
  const stacks = demandsOf(picture).slice(0, LENGTH.stacks)
  return barsIn(
    ['red', 'yellow', 'green', 'unknown'],
    stacks.map(({ colours }) => colours),
  )
}

export function severityBars(picture: Picture): Bars {
  return barsIn(
    ['red', 'unknown'],
    severitiesOf(picture).map(({ kinds }) => kinds),
  )
}

function categoryOf(category: string | null): string {
  return nameCategory(category) ?? 'Sem categoria'
}
