import { ANALYSIS } from '#schema/analysis.ts'
import type { Fields } from '#schema/record.ts'
import { line } from '#src/present/text/format.ts'
import { type Labels, labelsOf, nameIn, PHASES } from '#src/present/text/labels.ts'

/** The readers' words for codes; a code that is not known is shown unchanged. */

export const VERDICTS = labelsOf('analyses.verdict_recommendation')

/** The parts of an analysis. */
export const SECTIONS = {
  verdict: 'Parecer',
  requirements: 'Requisitos',
  alerts: 'Riscos e alertas',
  overview: 'Visão geral',
  pricing: 'Preço e garantias',
  operational: 'Entrega e execução',
  orgao_report: 'Pagamento pelo órgão',
  items: 'Itens',
} as const

const EVENTS: Labels = new Map([
  ['notice_arrived', 'Edital recebido'],
  ['notice_changed', 'Edital alterado'],
  ['notice_deleted', 'Edital removido da origem'],
  ['notice_returned', 'Edital de volta'],
  ['analysis_arrived', 'Primeira análise'],
  ['analysis_changed', 'Análise alterada'],
  ['analysis_outdated', 'Análise desatualizada'],
  ['analysis_current', 'Análise confirmada'],
  ['verdict_changed', 'Parecer alterado'],
])

/** The colour of a chip in the page. */
export type Tone = 'red' | 'yellow' | 'green' | 'accent' | 'plain'

const MAX_CHARACTERS = 60

const named = (labels: Labels) => (value: unknown) => nameIn(labels, value, MAX_CHARACTERS)

export const phaseName = named(PHASES)
export const verdictName = named(VERDICTS)
export const severityName = named(labelsOf('alerts.severity'))
export const alertTypeName = named(labelsOf('alerts.type'))
export const categoryName = named(labelsOf('requirements.category'))
export const lightName = named(labelsOf('requirements.status'))
export const actionName = named(labelsOf('alerts.action_type'))
export const riskName = named(labelsOf('analyses.pricing_risco_pagamento'))
export const levelName = named(labelsOf('analyses.analysis_level'))
export const kindName = named(labelsOf('items.material_ou_servico'))
export const fieldName = named(
  new Map([
    ...labelsOf('mudancas.campo'),
    ...titlesOf(ANALYSIS),
    ...Object.entries(SECTIONS),
    ['updated_at', 'Atualizado em'],
  ]),
)

/** What the data dictionary calls the fields of a record; without its remarks in brackets. */
export function titlesOf(fields: Fields): [string, string][] {
  return Object.entries(fields).flatMap(([name, field]): [string, string][] =>
    'portuguese' in field && field.portuguese
      ? [[name, field.portuguese[0].replace(/ \([^()]*\)$/, '')]]
      : [],
  )
}

/** A name that the contract does not have: `prazo_entrega_dias` becomes `Prazo entrega dias`. */
export function spelledOut(name: string): string {
  const words = line(name.slice(0, 2 * MAX_CHARACTERS).replaceAll('_', ' '), MAX_CHARACTERS) ?? '?'
  return words.charAt(0).toUpperCase() + words.slice(1)
}
export const eventName = named(EVENTS)

const TONES: Readonly<Record<string, Tone>> = {
  participar: 'green',
  cautela: 'yellow',
  nao_recomendado: 'red',
  green: 'green',
  yellow: 'yellow',
  red: 'red',
  critical: 'red',
  high: 'red',
  medium: 'yellow',
  ready: 'green',
  discarded: 'plain',
  expired: 'plain',
}

export function toneOf(value: unknown): Tone {
  return typeof value === 'string' && Object.hasOwn(TONES, value) ? (TONES[value] as Tone) : 'accent'
}
