import { identifierOf } from '../oracle/identifier.ts'
import { known, sorted, sum } from './arithmetic.ts'
import { localDay, sessionOf } from './calendar.ts'
import { type Contest, contestOf } from './contest.ts'
import { type Document, numberOf, textOf, timeOf } from './contract.ts'
import type { Followed, History } from './history.ts'
import { plain, respelled, seen } from './spelling.ts'

/** The state of the documents at an instant, in the terms of the data dictionary. */
export type Picture = {
  readonly now: Date
  readonly today: Temporal.PlainDate
  readonly history: History
  /** Also those that are gone. */
  readonly all: readonly Notice[]
  /** Live notices: all that the API still returns. */
  readonly live: readonly Notice[]
  /** Live notices that are neither discarded nor expired; of `state` only, if it is set. */
  readonly open: readonly Notice[]
  readonly state: string | null
  /** Of all notices, including those that are gone. */
  readonly stays: readonly Stay[]
  readonly items: readonly Item[]
  readonly newVerdicts: readonly NewVerdict[]
  readonly moves: readonly Move[]
}

export type Phase = {
  readonly status: string
  readonly name: string
  readonly order: number
  readonly open: boolean
}

export const PHASES: readonly Phase[] = [
  { status: 'screening', name: 'Triagem', order: 1, open: true },
  { status: 'analysis', name: 'Análise', order: 2, open: true },
  { status: 'pricing', name: 'Precificação', order: 3, open: true },
  { status: 'ready', name: 'Pronto', order: 4, open: true },
  { status: 'discarded', name: 'Descartado', order: 5, open: false },
  { status: 'expired', name: 'Vencido', order: 6, open: false },
]

/** A phase that the contract does not name keeps its own name, comes last, and counts as open. */
export function phaseOf(status: string): Phase {
  return PHASES.find(phase => phase.status === status) ?? { status, name: status, order: 9, open: true }
}

/** Every phase of the contract, and other phases of the notices. */
export function phasesOf(notices: readonly { readonly phase: Phase }[]): Phase[] {
  const all = new Map([...PHASES, ...notices.map(({ phase }) => phase)].map(phase => [phase.status, phase]))
  return sorted(
    [...all.values()],
    ({ order }) => order,
    ({ status }) => status,
  )
}

export type Notice = {
  readonly id: string
  readonly cnpj: string | null
  readonly orgao: string | null
  readonly objeto: string | null
  readonly numero: string | null
  readonly modalidade: string | null
  readonly uf: string | null
  readonly url: string | null
  readonly phase: Phase
  readonly confirmed: boolean
  readonly discardReason: string | null
  /** The estimated value, if it is plausible. */
  readonly value: number | null
  readonly suspect: boolean
  /** The live notice of the same purchase that sums have instead. */
  readonly countsIn: Pick<Notice, 'id' | 'numero'> | null
  readonly session: Temporal.PlainDateTime | null
  readonly sessionDay: Temporal.PlainDate | null
  readonly contest: Contest | null
  readonly createdAt: Date
  readonly updatedAt: Date
  /** When it was first seen with an analysis; null before that. */
  readonly analysedAt: Date | null
  /** When the company confirmed, or first had a verdict, whichever came first. */
  readonly judgedAt: Date | null
  /** When it was first seen in its phase. */
  readonly enteredAt: Date
  /** False if it was in its phase before anybody looked. */
  readonly entryWasSeen: boolean
  readonly analysisState: 'current' | 'quarantined' | 'excluded' | 'pending'
  readonly recommendation: string | null
  readonly level: string | null
  readonly reason: string | null
  /** What the analysis says that the notice ties up, in BRL. */
  readonly capital: Readonly<Record<'proposal' | 'contract' | 'investment', number | null>>
  /** Whether it is a price registration: the buyer does not commit to buy. */
  readonly registersPrices: boolean
  /** Whether it is reserved for small companies; null if the analysis does not say. */
  readonly isReserved: boolean | null
  /** The sum of the plausible totals of the selected items, and whether the notice has a value that limits it. */
  readonly selected: { readonly worth: number; readonly isLimited: boolean }
  readonly requirements: readonly Requirement[]
  readonly alerts: readonly Alert[]
  readonly risk: PaymentRisk
}

/** The payment risk of an analysis: what the buyer's report and the pricing say, and which of them counts. */
export type PaymentRisk = {
  readonly value: string | null
  readonly report: string | null
  readonly pricing: string | null
}

export type Item = {
  readonly noticeId: string
  readonly followedOn: Temporal.PlainDate | null
  readonly description: string | null
  readonly unit: string | null
  readonly isService: boolean
  /** Null if it is not plausible. */
  readonly price: number | null
}

/** A notice seen in another phase than before. */
export type Move = { readonly id: string; readonly from: string; readonly to: string; readonly at: Date }

/** A verdict other than the one before. */
export type NewVerdict = {
  readonly noticeId: string
  readonly from: string | null
  readonly to: string | null
  readonly reason: string | null
  readonly at: Date
}

export type Requirement = {
  readonly ordinal: number
  readonly category: string | null
  readonly title: string | null
  readonly required: string | null
  readonly current: string | null
  readonly colour: string | null
  readonly notes: string | null
}

export type Alert = {
  readonly ordinal: number
  readonly type: string | null
  readonly severity: string | null
  /** The name for readers; a severity that the contract does not name stays as it is. */
  readonly severityName: string | null
  readonly severityOrder: number
  readonly title: string | null
  readonly description: string | null
  readonly action: string | null
  readonly thesis: string | null
  /** For actions that must come before the session. */
  readonly deadline: Temporal.PlainDate | null
  readonly deadlineRule: string | null
  readonly deadlineCertainty: string | null
}

/** The time in which a notice was seen in a phase; `to` is null while it is there. */
export type Stay = {
  readonly phase: Phase
  readonly from: Date
  readonly to: Date | null
  readonly startWasSeen: boolean
}

export function pictureAt(history: History, now: Date): Picture {
  const followed = respelled([...history.followed.values()])
  const alone = followed.map(notice => noticeOf(notice, history))
  const counted = republished(alone.filter((_, index) => followed[index]?.goneAt === null))
  const all = alone.map(notice => ({ ...notice, countsIn: counted.get(notice.id) ?? null }))
  const live = all.filter((_, index) => followed[index]?.goneAt === null)
  return {
    now,
    today: localDay(now),
    history,
    all,
    live,
    state: null,
    open: live.filter(({ phase }) => phase.open),
    stays: followed.flatMap(notice => staysOf(notice, history)),
    items: followed.flatMap(itemsOf),
    newVerdicts: followed.flatMap(newVerdictsOf),
    moves: followed.flatMap(movesOf),
  }
}

/** The same picture for one state. */
export function inState(picture: Picture, state: string): Picture {
  return { ...picture, state, open: picture.open.filter(({ uf }) => uf === state) }
}

/** The first stay of a notice began unseen if the company followed the notice before the first reading. */
function staysOf({ edital, phases }: Followed, { firstGoodAt }: History): Stay[] {
  const followedSince = new Date(String(edital.created_at)).getTime()
  return phases.map(({ status, since, until }, index) => ({
    phase: phaseOf(status),
    from: since,
    to: until,
    startWasSeen: index > 0 || Math.min(followedSince, since.getTime()) > firstGoodAt.getTime(),
  }))
}

function itemsOf({ edital, analysis }: Followed): Item[] {
  return elementsOf(analysis, 'items').map(element => {
    const price = numberOf(element.valor_unitario_estimado)
    return {
      noticeId: String(edital.id),
      followedOn: localDay(new Date(String(edital.created_at))),
      description: textOf(element.descricao),
      unit: textOf(element.unidade_medida),
      isService: element.material_ou_servico === 'S',
      price: price === 0 ? null : plausible(price),
    }
  })
}

/** A notice that was gone and returned to the same phase did not move. */
function movesOf({ edital, phases }: Followed): Move[] {
  return phases
    .slice(1)
    .map(({ status, since }, index) => ({
      id: String(edital.id),
      from: String(phases[index]?.status),
      to: status,
      at: since,
    }))
    .filter(({ from, to }) => from !== to)
}

function newVerdictsOf({ edital, verdicts }: Followed): NewVerdict[] {
  // The first verdict of a notice is not a change, whenever it comes.
  const first = verdicts.findIndex(({ recommendation }) => recommendation !== null)
  const known = first === -1 ? [] : verdicts.slice(first)
  return known.slice(1).map(({ recommendation, reason, at }, index) => ({
    noticeId: String(edital.id),
    from: known[index]?.recommendation ?? null,
    to: recommendation,
    reason,
    at,
  }))
}

/** A total over its notice's value, by more than rounding, is not believed, and neither is a sum. A real is no value. */
function selectedWorth(analysis: Document | null, ofNotice: number | null): Notice['selected'] {
  const ceiling = ofNotice !== null && ofNotice > 1 ? ofNotice : Number.POSITIVE_INFINITY
  const selected = elementsOf(analysis, 'items').filter(({ ai_selected }) => ai_selected === true)
  const totals = known(selected.map(({ valor_total }) => plausible(numberOf(valor_total))))
  const worth = Math.min(sum(totals.filter(value => value <= 1.01 * ceiling)), ceiling)
  return { worth, isLimited: Number.isFinite(ceiling) }
}

function plausible(value: number | null): number | null {
  return value === null || isSuspect(value) ? null : value
}

function noticeOf(followed: Followed, history: History): Notice {
  const { edital, analysis } = followed
  const stay = staysOf(followed, history).at(-1)
  const id = String(edital.id)
  const session = sessionOf(timeOf(edital.data_sessao))
  const sessionDay = session?.toPlainDate() ?? null
  const published = numberOf(edital.valor_estimado)
  const suspect = published !== null && isSuspect(published)
  const value = published === 0 || suspect ? null : published
  const { prazo_impugnacao, lei_aplicavel } = partOf(analysis, 'overview')
  const uf = textOf(edital.uf)?.trim().toUpperCase() || null
  const contest = contestOf(session, {
    text: textOf(prazo_impugnacao),
    law: textOf(lei_aplicavel),
    modality: textOf(edital.modalidade),
    uf,
  })
  return {
    id,
    cnpj: identifierOf(edital.pncp_id).cnpj,
    orgao: textOf(edital.orgao),
    objeto: textOf(edital.objeto),
    numero: textOf(edital.numero),
    modalidade: textOf(edital.modalidade),
    uf: textOf(edital.uf),
    url: textOf(edital.pncp_url),
    phase: phaseOf(String(edital.status)),
    confirmed: edital.participation_confirmed === true,
    discardReason: textOf(edital.discard_reason),
    value,
    suspect,
    countsIn: null,
    session,
    sessionDay,
    contest,
    createdAt: new Date(String(edital.created_at)),
    updatedAt: new Date(String(edital.updated_at)),
    analysedAt: followed.analysedAt,
    judgedAt: judgedAt(followed),
    enteredAt: stay?.from ?? new Date(Number.NaN),
    entryWasSeen: stay?.startWasSeen === true,
    analysisState: analysisStateOf(followed, history),
    recommendation: textOf(partOf(analysis, 'verdict').recommendation),
    level: textOf(analysis?.analysis_level),
    reason: textOf(partOf(analysis, 'verdict').reason),
    capital: {
      proposal: plausible(numberOf(partOf(analysis, 'pricing').garantia_proposta)),
      contract: plausible(numberOf(partOf(analysis, 'pricing').garantia_contratual)),
      investment: plausible(numberOf(partOf(analysis, 'pricing').investimento_total)),
    },
    isReserved: isReservedIn(partOf(analysis, 'overview')),
    registersPrices: ['overview', 'pricing'].some(part => partOf(analysis, part).is_srp === true),
    selected: selectedWorth(analysis, value),
    requirements: elementsOf(analysis, 'requirements').map(requirementOf),
    alerts: elementsOf(analysis, 'alerts').map((element, index) => alertOf(element, index, contest)),
    risk: riskOf(
      riskNamed(partOf(analysis, 'orgao_report').payment_risk),
      riskNamed(partOf(analysis, 'pricing').risco_pagamento),
    ),
  }
}

/** A purchase that is published again within so many days is the same one. */
const SAME_PURCHASE_MS = 180 * 86_400_000

/** By id, the live notices whose purchase counts in another one, which is the value. */
function republished(live: readonly Notice[]): ReadonlyMap<string, Notice> {
  const purchases = Map.groupBy(live, ({ cnpj, orgao, objeto, value }) => {
    const buyer = cnpj ?? plain(seen(orgao) ?? '')
    const object = plain(seen(objeto) ?? '').replace(/^\[.*?\] ?-? ?/, '')
    return buyer && object && value !== null ? [buyer, object, value.toFixed(2)].join('\n') : null
  })
  purchases.delete(null)
  const pairs = [...purchases.values()].flatMap(notices => {
    const inOrder = sorted(
      notices,
      ({ createdAt }) => createdAt.getTime(),
      ({ id }) => id,
    )
    const groups: Notice[][] = []
    for (const notice of inOrder) {
      const before = groups.at(-1)?.at(-1)
      if (before && notice.createdAt.getTime() - before.createdAt.getTime() <= SAME_PURCHASE_MS)
        groups.at(-1)?.push(notice)
      else groups.push([notice])
    }
    return groups.flatMap(group => {
      const counts = group.findLast(({ phase }) => phase.open) ?? (group.at(-1) as Notice)
      return group.filter(notice => notice !== counts).map(({ id }) => [id, counts] as const)
    })
  })
  return new Map(pairs)
}

function isReservedIn({ exclusivo_me_epp: is }: Document): boolean | null {
  return typeof is === 'boolean' ? is : null
}

function judgedAt({ edital, verdicts }: Followed): Date | null {
  const confirmed = timeOf(edital.committed_at)
  const times = known([
    confirmed ? new Date(confirmed) : null,
    verdicts.find(({ recommendation }) => recommendation !== null)?.at ?? null,
  ])
  return sorted(times, at => at.getTime())[0] ?? null
}

/** Whether the analysis belongs to the current notice, and if not, why. */
function analysisStateOf(
  { edital, analysis, analysedFor }: Followed,
  { setAside, analysed }: History,
): Notice['analysisState'] {
  if (analysis && analysedFor === edital.updated_at) return 'current'
  if (setAside.some(({ kind, id }) => kind === 'analysis' && id === edital.id)) return 'quarantined'
  return analysed.includes(String(edital.status)) ? 'pending' : 'excluded'
}

function riskNamed(value: unknown): string | null {
  const text = seen(textOf(value))
  return text === null ? null : plain(text)
}

/** A known risk counts before an unknown one, then the buyer's own report before the pricing. */
function riskOf(report: string | null, pricing: string | null): PaymentRisk {
  const given = [report, pricing].filter(risk => risk !== null)
  return { value: given.find(risk => risk !== 'desconhecido') ?? given[0] ?? null, report, pricing }
}

/** Negative, symbolic, only nines, or implausibly large. */
export function isSuspect(value: number): boolean {
  const onlyNines = /^9{8,}\.(00|99)$/.test(value.toFixed(2))
  return value < 0 || (value > 0 && value < 1) || value >= 100e9 || onlyNines
}

function partOf(analysis: Document | null, name: string): Document {
  return (analysis?.[name] ?? {}) as Document
}

export function elementsOf(analysis: Document | null, name: string): readonly Document[] {
  return (analysis?.[name] ?? []) as readonly Document[]
}

function requirementOf(element: Document, index: number): Requirement {
  return {
    ordinal: index + 1,
    category: textOf(element.category),
    title: textOf(element.title),
    required: textOf(element.required),
    current: textOf(element.current),
    colour: textOf(element.status),
    notes: textOf(element.ai_notes),
  }
}

const SEVERITIES: readonly (readonly [severity: string, name: string])[] = [
  ['critical', 'crítica'],
  ['high', 'alta'],
  ['medium', 'média'],
  ['low', 'baixa'],
]
const ACTIONS: Readonly<Record<string, string>> = {
  impugnacao: 'Impugnação',
  esclarecimento: 'Esclarecimento',
  recurso: 'Recurso',
  contrarrazao: 'Contrarrazão',
  none: 'Nenhuma',
}
/** Actions before the session; appeals follow it, at an unknown time. */
const BEFORE_THE_SESSION: readonly (string | null)[] = ['impugnacao', 'esclarecimento']

function alertOf(element: Document, index: number, contest: Notice['contest']): Alert {
  const [severity, action] = [textOf(element.severity), textOf(element.action_type)]
  const place = SEVERITIES.findIndex(([known]) => known === severity)
  return {
    ordinal: index + 1,
    severity,
    type: textOf(element.type),
    severityName: SEVERITIES[place]?.[1] ?? severity,
    severityOrder: place < 0 ? 9 : place + 1,
    title: textOf(element.title),
    description: textOf(element.description),
    action: action && (ACTIONS[action] ?? action),
    thesis: textOf(element.legal_thesis),
    deadline: BEFORE_THE_SESSION.includes(action) ? (contest?.day ?? null) : null,
    deadlineRule: BEFORE_THE_SESSION.includes(action) ? (contest?.rule ?? null) : null,
    deadlineCertainty: BEFORE_THE_SESSION.includes(action) ? (contest?.certainty ?? null) : null,
  }
}
