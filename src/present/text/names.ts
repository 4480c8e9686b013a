import { ANALYSIS } from '#schema/analysis.ts'
import { makeTextKey } from '#schema/text_key.ts'
import { findLabels, type Labels, listTitles, PHASE_LABELS } from '#src/marts/labels.ts'
import { fitInLine } from './format.ts'

/** Names for readers instead of codes, which come from strangers: a code that is not known is shown in one line. */

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

const DRIFT_KINDS: Labels = new Map([
  ['unknown_field', 'campo novo'],
  ['unknown_enum', 'valor novo'],
  ['unknown_form', 'formato desconhecido'],
  ['too_long', 'texto longo demais, cortado'],
  ['wrong_type', 'tipo trocado'],
])

const RECORD_KINDS: Labels = new Map([
  ['notice', 'edital'],
  ['analysis', 'análise'],
])

const FIELDS: Labels = new Map([
  ...findLabels('mudancas.campo'),
  ...listTitles(ANALYSIS),
  ...Object.entries(SECTIONS),
  ['updated_at', 'Atualizado em'],
])

const MAX_CHARACTERS = 60

export const nameAction = namer(findLabels('alerts.action_type'))
export const nameAlertType = namer(findLabels('alerts.type'))
export const nameCategory = namer(findLabels('requirements.category'))
export const nameDriftKind = namer(DRIFT_KINDS)
export const nameEvent = namer(EVENTS)
export const nameField = namer(FIELDS)
export const nameItemKind = namer(findLabels('items.material_ou_servico'))
export const nameLevel = namer(findLabels('analyses.analysis_level'))
export const nameLight = namer(findLabels('requirements.status'))
export const namePhase = namer(PHASE_LABELS)
export const nameRecordKind = namer(RECORD_KINDS)
export const nameRisk = namer(findLabels('analyses.pricing_risco_pagamento'))
export const nameRunStatus = namer(findLabels('sync_runs.status'))
export const nameSeverity = namer(findLabels('alerts.severity'))
export const nameVerdict = namer(findLabels('analyses.verdict_recommendation'))

/** Returns a function that names a code, however it is spelled, and returns null for what is no text. */
function namer(labels: Labels): (code: unknown) => string | null {
  return code => {
    if (typeof code !== 'string') return null
    return labels.get(code) ?? labels.get(makeTextKey(code)) ?? fitInLine(code, MAX_CHARACTERS)
  }
}

/** Names of fields that the contract does not have, but real analyses do. */
const FREE_FIELDS: Labels = new Map([
  ['cct', 'Convenção coletiva'],
  ['modo_disputa', 'Modo de disputa'],
  ['pagina', 'Página'],
  ['prazo_entrega', 'Prazo de entrega'],
  ['prazo_execucao', 'Prazo de execução'],
  ['prazo_pagamento', 'Prazo de pagamento'],
])
/** How a field that is a number of them ends: `prazo_entrega_dias`. */
const UNIT = /_(dias|meses|anos|horas|km|m2|percentual)$/
/** Endings that are written without their accents in names. */
const PLAIN: readonly (readonly [plain: RegExp, accented: string])[] = [
  [/c(ao|oes)\b/g, 'ç$1'],
  [/(ç|s)ao\b/g, '$1ão'],
  [/(ç|s)oes\b/g, '$1ões'],
  [/([ae])ncia(s?)\b/g, '$1\u0302ncia$2'],
]

/** Spells out a code or a name that the contract does not have: `prazo_entrega_dias` becomes `Prazo de entrega (dias)`. */
export function spellOut(name: string): string {
  const [, unit] = UNIT.exec(name) ?? []
  if (unit !== undefined) return `${spellOut(name.replace(UNIT, ''))} (${unit})`
  const known = FREE_FIELDS.get(name)
  if (known !== undefined) return known
  const plain = fitInLine(name.slice(0, 2 * MAX_CHARACTERS).replaceAll('_', ' '), MAX_CHARACTERS) ?? '?'
  const words = PLAIN.reduce((text, ending) => text.replace(...ending), plain).normalize('NFC')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
