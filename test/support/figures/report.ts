import {
  formatAge,
  formatDays,
  formatPercent,
  formatPlural,
  formatShortMoney,
  formatWholeMoney,
  number,
} from '#src/present/text/format.ts'
import { nameDriftKind, nameRecordKind, nameRunStatus } from '#src/present/text/names.ts'
import { down, known, median, sorted, sum } from './arithmetic.ts'
import type { Row } from './card.ts'
import { CARDS } from './cards.ts'
import { againstLately } from './decisions.ts'
import { historyOf } from './history.ts'
import {
  alertsOf,
  bySession,
  coming,
  daysTo,
  inDispute,
  type Portion,
  portionsOf,
  requirementsOf,
  sessionsAhead,
  worthOf,
} from './lists.ts'
import { type Notice, type Phase, type Picture, phasesOf, pictureAt } from './picture.ts'
import { isSoon, momentOf, more, SOON, sentences, table } from './report_lines.ts'
import { alerts, buyers, demands, sessions } from './report_lists.ts'
import { changes, decisions, weeks } from './report_opening.ts'

/** The text of each part of the report, line by line, as `listFigures` reads it from the page. */
export type ReportText = Readonly<Record<string, readonly string[]>>

const DAY_MS = 86_400_000
/** Maximum length of the lists. */
const PROBLEMS = 10
const BARS = 10

/** Facts that are in no document: the snapshot's name and the last run's message. */
export type RunItself = { readonly snapshot: string; readonly error: string }

export function reportOf(picture: Picture, run: RunItself): ReportText {
  return {
    topo: top(picture),
    decidir: decisions(picture),
    mudou: changes(picture),
    semanas: weeks(picture),
    funil: funnel(picture),
    valor: values(picture),
    sessoes: sessions(picture),
    requisitos: demands(picture),
    alertas: alerts(picture),
    orgaos: buyers(picture),
    qualidade: quality(picture, run),
    fim: sentences(
      `Retrato dos dados: ${run.snapshot}. Valores estimados são os publicados nos editais, em reais; nas somas, uma compra republicada conta uma vez.`,
    ),
  }
}

/** The figures as they were known seven days earlier; null if the list had not been read in the 24 hours before that. */
function weekBefore({ now, history: { readings, analysed } }: Picture): Picture | null {
  const then = new Date(now.getTime() - 7 * DAY_MS)
  const known = readings.filter(({ at }) => at <= then)
  const last = known.findLast(({ served }) => served)
  if (!last || then.getTime() - last.at.getTime() > DAY_MS) return null
  return pictureAt(historyOf(known, analysed), then)
}

function top(picture: Picture): string[] {
  const { open, history, now } = picture
  const { lastRun, lastGoodAt } = history
  const age = now.getTime() - lastGoodAt.getTime()
  const [future, past, none] = bySession(open, picture).map(notices => worthOf(notices))
  const redIn = (one: Picture) =>
    requirementsOf(coming(one.open, one)).filter(({ colour }) => colour === 'red')
  const red = redIn(picture)
  const dueIn = (one: Picture) =>
    alertsOf(one.open).filter(({ deadline }) => deadline && isSoon(daysTo(deadline, one)))
  const due = dueIn(picture)
  const notices = (list: readonly { readonly notice: Notice }[]) =>
    formatPlural(new Set(list.map(({ notice }) => notice.id)).size, 'edital', 'editais')
  const before = weekBefore(picture)
  const ago = (what: (then: Picture) => string) => (before ? ` há 7 dias: ${what(before)}` : '')
  return sentences(
    `Dados de ${momentOf(lastRun.at)}. Última leitura completa: ${momentOf(lastGoodAt)} (há ${formatAge(age)}). Prazos e sessões contados de ${momentOf(now)}, horário de Brasília.`,
    age > DAY_MS &&
      `A última leitura completa foi há ${formatAge(age)}: os números podem estar desatualizados.`,
    lastRun.failed && `A última execução, de ${momentOf(lastRun.at)}, falhou. Veja “Qualidade dos dados”.`,
    `Editais em andamento | ${number(open.length)} ${sessionCounts(open, picture)}; ${number(open.filter(({ confirmed }) => confirmed).length)} com participação confirmada${ago(then => number(then.open.length))}`,
    `Valor em disputa | ${formatShortMoney(future ?? 0)} ${formatWholeMoney(future ?? 0)} com sessão futura; mais ${formatWholeMoney(past ?? 0)} com sessão passada e ${formatWholeMoney(none ?? 0)} sem data; ${number(valueless(open).length)} sem valor${ago(then => formatShortMoney(inDispute(then.open, then)))}`,
    `Sessões | ${number(sessionsAhead(picture, SOON).length)} nos próximos 7 dias${ago(then => number(sessionsAhead(then, SOON).length))}`,
    `Requisitos vermelhos | ${number(red.length)} em ${notices(red)} com sessão por vir${ago(then => number(redIn(then).length))}`,
    `Alertas com prazo | ${number(due.length)} nos próximos 7 dias, em ${notices(due)}${ago(then => number(dueIn(then).length))}`,
    'Sessões dos próximos 30 dias',
  )
}

function sessionCounts(notices: readonly Notice[], picture: Picture): string {
  const [future, past, none] = bySession(notices, picture).map(({ length }) => length)
  return `${number(future ?? 0)} com sessão futura, ${formatPlural(past ?? 0, 'passada', 'passadas')}, ${number(none ?? 0)} sem data`
}

const countsBySession = (notices: readonly Notice[], picture: Picture) =>
  bySession(notices, picture).map(({ length }) => number(length))

function valueless(notices: readonly Notice[]): Notice[] {
  return notices.filter(({ value }) => value === null)
}

type InPhase = { readonly phase: Phase; readonly notices: readonly Notice[] }

function byPhase({ live }: Picture): InPhase[] {
  return phasesOf(live).map(phase => ({
    phase,
    notices: live.filter(notice => notice.phase.status === phase.status),
  }))
}

/** The phases in progress, with their notices whose session has not begun. */
function phasesAhead(picture: Picture): InPhase[] {
  const open = byPhase(picture).filter(({ phase }) => phase.open)
  return open.map(({ phase, notices }) => ({ phase, notices: coming(notices, picture) }))
}

function funnel(picture: Picture): string[] {
  const { live, open, now } = picture
  const phases = byPhase(picture)
  const ahead = phasesAhead(picture)
  const most = Math.max(...ahead.map(({ notices }) => notices.length))
  const largest = ahead.flatMap(({ phase, notices }) => (notices.length === most ? [phase.name] : []))
  const have = largest.length === 1 ? 'tem' : 'têm'
  const since = (times: readonly Date[]) =>
    formatDays(median(times.map(time => (now.getTime() - time.getTime()) / DAY_MS)))
  const timeInPhase = (notices: readonly Notice[]) => {
    const seen = notices.filter(({ entryWasSeen }) => entryWasSeen)
    const measured = `${formatPlural(seen.length, 'medido', 'medidos')}, ${number(notices.length - seen.length)} não`
    const median = since(seen.map(({ enteredAt }) => enteredAt))
    return notices.length > 0 ? `${median} ${measured}` : median
  }
  return [
    ...sentences(
      `${formatPlural(live.length, 'edital acompanhado', 'editais acompanhados')}, ${number(open.length)} em andamento (${sessionCounts(open, picture)}).`,
      decidedAgainst(picture),
      most > 0 && `${largest.join(' e ')} ${have} mais sessões por vir: ${number(most)}`,
      `Editais com sessão futura por fase: ${ahead.map(({ phase, notices }) => `${phase.name} ${number(notices.length)}`).join(', ')}.`,
    ),
    ...table(
      'Editais, valor estimado e tempo por fase',
      'Fase | Editais | Sessão futura | Passada | Sem data | Sem valor | Valor total | Valor mediano | Idade mediana | Na fase (mediana)',
      phases.map(({ phase, notices }) => [
        ...[phase.name, number(notices.length), ...countsBySession(notices, picture)],
        number(valueless(notices).length),
        formatWholeMoney(worthOf(notices)),
        formatWholeMoney(median(known(notices.map(({ value }) => value)))),
        since(notices.map(({ createdAt }) => createdAt)),
        timeInPhase(notices),
      ]),
    ),
  ]
}

function decidedAgainst(picture: Picture): string {
  const { past, ahead } = againstLately(picture)
  const cases = (all: typeof past) => {
    const some = Object.entries(all).filter(([, { length }]) => length > 0)
    const worth = (value: number) => (value > 0 ? ` (${formatShortMoney(value)})` : '')
    return some.map(([name, those]) => `${name}: ${number(those.length)}${worth(worthOf(those))}`).join('; ')
  }
  return `Contra o parecer, com sessão nas últimas 12 semanas: ${cases(past)}. Contra o parecer, ainda a tempo de rever: ${cases(ahead)}.`
}

/** The texts in the funnel's drawing: the names of its bars, then the labels at their ends. */
export function funnelDrawing(picture: Picture): string[] {
  const phases = phasesAhead(picture)
  return [
    ...phases.map(({ phase }) => phase.name),
    ...phases.map(({ notices }) => `${number(notices.length)} · ${formatShortMoney(worthOf(notices))}`),
  ].map(plainSpaces)
}

function values(picture: Picture): string[] {
  const { open } = picture
  const suspect = open.filter(({ suspect }) => suspect).length
  const [future, past, none] = bySession(open, picture).map(notices => formatWholeMoney(worthOf(notices)))
  const secret = valueless(open).length - suspect
  const verdicts = CARDS.disputa_por_parecer?.(picture) ?? []
  return [
    ...sentences(
      `${future} em disputa nos editais em andamento com sessão futura; ${past} com sessão passada e ${none} sem data; ${formatPlural(secret, 'não informa o valor', 'não informam o valor')}, ${formatPlural(suspect, 'tem valor implausível e não conta', 'têm valor implausível e não contam')}.`,
      `Por parecer, com os itens selecionados: ${verdicts.map(worthByVerdict).join('; ')}. RP, registro de preços, não obriga o órgão a comprar.`,
    ),
    ...portions('UF', statesOf(picture), picture),
    ...portions('Modalidade', modalitiesOf(picture), picture),
  ]
}

function worthByVerdict(row: Row): string {
  const money = (name: string) => formatShortMoney(Number(row[name]))
  const shares = [
    Number(row.Editais) > 0 ? money('Valor estimado') : null,
    Number(row['Itens selecionados']) > 0 ? `itens ${money('Itens selecionados')}` : null,
    Number(row['Editais RP']) > 0 ? `em RP ${money('Valor RP')}` : null,
    Number(row['Itens RP']) > 0 ? `itens em RP ${money('Itens RP')}` : null,
  ]
  return [row.Parecer, ...shares.filter(share => share !== null)].join(', ')
}

const statesOf = (picture: Picture) => inOrder(portionsOf(picture, ({ uf }) => uf))
const modalitiesOf = (picture: Picture) => inOrder(portionsOf(picture, ({ modalidade }) => modalidade))

function inOrder(portions: readonly Portion[]): Portion[] {
  return sorted(
    portions,
    down(({ inDispute }) => inDispute),
    down(({ ahead }) => ahead.length),
    down(({ value }) => value),
    down(({ notices }) => notices.length),
    ({ name }) => name,
  )
}

function portions(kind: string, all: readonly Portion[], picture: Picture): string[] {
  const coming = all.filter(({ ahead }) => ahead.length > 0)
  const rest = coming.slice(BARS)
  const restCount = sum(rest.map(({ ahead }) => ahead.length))
  const [first] = coming
  const share = (first?.inDispute ?? 0) / sum(coming.map(({ inDispute }) => inDispute))
  return [
    ...sentences(
      first !== undefined && `${nameOf(first)} tem ${formatPercent(share)} do valor em disputa`,
      `Valor em disputa e editais com sessão futura por ${kind}: ${coming
        .slice(0, BARS)
        .map(portion => `${nameOf(portion)} ${barTextOf(portion)}`)
        .join(', ')}.`,
      rest.length > 0 &&
        `Valor em disputa · editais com sessão futura. ${rest.length === 1 ? 'Outra' : `Outras ${number(rest.length)}`}: ${formatShortMoney(sum(rest.map(({ inDispute }) => inDispute)))} · ${number(restCount)}.`,
    ),
    ...table(
      `Editais em andamento por ${kind}`,
      `${kind} | Editais | Sessão futura | Passada | Sem data | Em disputa | Valor em andamento`,
      all.map(portion => [
        ...[nameOf(portion), number(portion.notices.length), ...countsBySession(portion.notices, picture)],
        ...[formatWholeMoney(portion.inDispute), formatWholeMoney(portion.value)],
      ]),
    ),
  ]
}

const nameOf = ({ name }: Portion) => (name === 'não informada' ? 'Não informada' : name)
const barTextOf = ({ ahead, inDispute }: Portion) =>
  `${inDispute > 0 ? formatShortMoney(inDispute) : 'sem valor'} · ${number(ahead.length)}`

/** The texts in the drawings of states and modalities. */
export function portionDrawings(picture: Picture): string[][] {
  return [statesOf(picture), modalitiesOf(picture)].map(all => {
    const bars = all.filter(({ ahead }) => ahead.length > 0).slice(0, BARS)
    return [...bars.map(nameOf), ...bars.map(barTextOf)].map(plainSpaces)
  })
}

function plainSpaces(text: string): string {
  return text.replaceAll(/\s/g, ' ')
}

function quality({ live, history }: Picture, { error }: RunItself): string[] {
  const { setAside, drift, lastRun, lastGoodAt } = history
  const inState = (state: Notice['analysisState']) =>
    live.filter(({ analysisState }) => analysisState === state).length
  const pending = inState('pending')
  return [
    ...sentences(
      `${formatPlural(pending, 'análise ainda não foi lida', 'análises ainda não foram lidas')}; ${formatPlural(setAside.length, 'registro não pôde ser usado e espera', 'registros não puderam ser usados e esperam')} em quarentena.`,
      `Editais acompanhados | ${number(live.length)}`,
      `Análises atuais | ${number(inState('current'))}`,
      `Análises pendentes | ${number(pending)}`,
      `Análises fora do escopo | ${number(inState('excluded'))}`,
      `Registros em quarentena | ${number(setAside.length)}`,
      `Desvios do contrato | ${number(drift.length)}`,
      `Última execução | ${momentOf(lastRun.at)}, ${nameRunStatus(lastRun.failed ? 'failed' : 'ok')}`,
      `Última leitura completa | ${momentOf(lastGoodAt)}`,
      `Mensagem da última execução: ${error}`,
    ),
    ...quarantine(history),
    ...drifts(history),
  ]
}

function quarantine({ setAside }: Picture['history']): string[] {
  const kinds = [...Map.groupBy(setAside, ({ kind }) => kind)]
  const rows = sorted(
    kinds,
    down(([, those]) => those.length),
    ([kind]) => kind,
  ).map(([kind, those]) => [
    nameRecordKind(kind),
    // All of them have only this fault.
    'a required field is missing',
    number(those.length),
    momentOf(latestOf(those.map(({ at }) => at))),
  ])
  return table('Em quarentena, por motivo', 'Registro | Motivo | Registros | Último em', rows)
}

function latestOf(times: readonly Date[]): Date {
  return new Date(Math.max(...times.map(time => time.getTime())))
}

function drifts({ drift }: Picture['history']): string[] {
  const rows = sorted(
    drift,
    down(({ lastAt }) => lastAt.getTime()),
    ({ path }) => path,
    ({ kind }) => kind,
  )
  return [
    ...table(
      'Onde os dados diferem do que o serviço documenta, os mais recentes',
      'Campo | Desvio | Vezes | Último em',
      rows
        .slice(0, PROBLEMS)
        .map(({ path, kind, count, lastAt }) => [path, nameDriftKind(kind), number(count), momentOf(lastAt)]),
    ),
    ...more(rows.length - PROBLEMS, 'desvio', 'desvios'),
  ]
}
