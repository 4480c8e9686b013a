import { type Labels, labelsOf, nameIn } from './labels.ts'

/** The report's words for the API's values; a value that the contract does not know is shown unchanged. */

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

const CATEGORIES = labelsOf('requirements.category')

const MAX_CHARACTERS = 40
const named = (labels: Labels) => (value: string | null) => nameIn(labels, value, MAX_CHARACTERS)

export const verdictName = named(labelsOf('analyses.verdict_recommendation'))
export const categoryName = (value: string | null) =>
  nameIn(CATEGORIES, value, MAX_CHARACTERS) ?? 'Sem categoria'
export const riskName = named(labelsOf('analyses.pricing_risco_pagamento'))
export const runStatusName = named(labelsOf('sync_runs.status'))
export const driftKindName = named(DRIFT_KINDS)
export const recordKindName = named(RECORD_KINDS)
