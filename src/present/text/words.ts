import { line } from './format.ts'

/** The readers' words for the API's values; a value that the contract does not know is shown unchanged. */

type Words = Readonly<Record<string, string>>

const VERDICTS: Words = {
  participar: 'Participar',
  cautela: 'Cautela',
  nao_recomendado: 'Não recomendado',
}

const CATEGORIES: Words = {
  habilitacao_juridica: 'Habilitação jurídica',
  qualificacao_tecnica: 'Qualificação técnica',
  qualificacao_economica: 'Qualificação econômica',
  regularidade_fiscal: 'Regularidade fiscal',
  regularidade_trabalhista: 'Regularidade trabalhista',
  declaracoes: 'Declarações',
  amostras: 'Amostras',
  visita_tecnica: 'Visita técnica',
  certificacoes: 'Certificações',
  garantias: 'Garantias',
  programa_integridade: 'Programa de integridade',
  outros: 'Outros',
}

const RISKS: Words = {
  baixo: 'baixo',
  medio: 'médio',
  alto: 'alto',
  critico: 'crítico',
  desconhecido: 'desconhecido',
}

const RUN_STATUSES: Words = {
  ok: 'sem problemas',
  partial: 'parcial',
  failed: 'falhou',
  interrupted: 'interrompida',
}

const DRIFT_KINDS: Words = {
  unknown_field: 'campo novo',
  unknown_enum: 'valor novo',
  unknown_form: 'formato desconhecido',
  too_long: 'texto longo demais, cortado',
  wrong_type: 'tipo trocado',
}

const RECORD_KINDS: Words = { notice: 'edital', analysis: 'análise' }

const MAX_WORD_CHARACTERS = 40

export const verdictName = (value: string | null) => word(VERDICTS, value)
export const categoryName = (value: string | null) => word(CATEGORIES, value) ?? 'Sem categoria'
export const riskName = (value: string | null) => word(RISKS, value)
export const runStatusName = (value: string | null) => word(RUN_STATUSES, value)
export const driftKindName = (value: string | null) => word(DRIFT_KINDS, value)
export const recordKindName = (value: string | null) => word(RECORD_KINDS, value)

function word(words: Words, value: string | null): string | null {
  return value !== null && Object.hasOwn(words, value)
    ? (words[value] as string)
    : line(value, MAX_WORD_CHARACTERS)
}
