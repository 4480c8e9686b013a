import { NOTICE, OPEN_STATUSES, STATUSES } from '#schema/notice.ts'
import type { Fields } from '#schema/record.ts'

/** The names that readers see instead of codes, in Portuguese, in the order of the contract. */

export type Labels = ReadonlyMap<string, string>

const PHASE_NAMES: Readonly<Record<(typeof STATUSES)[number], string>> = {
  screening: 'Triagem',
  analysis: 'Análise',
  pricing: 'Precificação',
  ready: 'Pronto',
  discarded: 'Descartado',
  expired: 'Vencido',
}

export const PHASE_LABELS: Labels = new Map(Object.entries(PHASE_NAMES))

/** By column, as `table.column`. A code that the API adds later has no label: readers see the code itself. */
const LABELS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'analyses.verdict_recommendation': {
    participar: 'Participar',
    cautela: 'Cautela',
    nao_recomendado: 'Não recomendado',
  },
  'analyses.analysis_level': { none: 'Nenhuma', simple: 'Simples', medium: 'Média', deep: 'Profunda' },
  'analyses.pricing_risco_pagamento': {
    baixo: 'baixo',
    medio: 'médio',
    alto: 'alto',
    critico: 'crítico',
    desconhecido: 'desconhecido',
  },
  'requirements.category': {
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
  },
  'requirements.status': { red: 'vermelho', yellow: 'amarelo', green: 'verde' },
  'items.material_ou_servico': { M: 'Material', S: 'Serviço' },
  'alerts.type': { risk: 'Risco', opportunity: 'Oportunidade', info: 'Informação' },
  'alerts.severity': { critical: 'crítica', high: 'alta', medium: 'média', low: 'baixa' },
  'alerts.action_type': {
    impugnacao: 'Impugnação',
    esclarecimento: 'Esclarecimento',
    recurso: 'Recurso',
    contrarrazao: 'Contrarrazão',
    none: 'Nenhuma',
  },
  'editais.analysis_state': {
    current: 'Atual',
    pending: 'Pendente',
    quarantined: 'Em quarentena',
    excluded: 'Fora do escopo',
  },
  // With each change of a notice, `updated_at` changes, too.
  'mudancas.campo': Object.fromEntries(listTitles(NOTICE).filter(([name]) => name !== 'updated_at')),
  'sync_runs.status': {
    ok: 'sem problemas',
    partial: 'parcial',
    failed: 'falhou',
    interrupted: 'interrompida',
  },
}

/**
 * Returns the labels of a column's codes.
 * @throws Error if it has none.
 */
export function findLabels(column: string): Labels {
  const labels = LABELS[column]
  if (!labels) throw new Error(`${column} has no labels`)
  return new Map(Object.entries(labels))
}

/** Returns the data dictionary's titles of a record's fields, without its remarks in brackets. */
export function listTitles(fields: Fields): [string, string][] {
  return Object.entries(fields).flatMap(([name, field]): [string, string][] =>
    'portuguese' in field && field.portuguese
      ? [[name, field.portuguese[0].replace(/ \([^()]*\)$/, '')]]
      : [],
  )
}

/** Returns the SQL of the mart `fases`. */
export function phasesSql(): string {
  const rows = STATUSES.map((status, index) => [
    quote(status),
    quote(PHASE_NAMES[status]),
    index + 1,
    OPEN_STATUSES.includes(status),
  ])
  return valuesSql(rows, ['status', 'fase', 'fase_ordem', 'em_andamento'])
}

/** Returns the SQL of the mart `rotulos`. */
export function labelsSql(): string {
  const rows = Object.entries(LABELS).flatMap(([column, labels]) =>
    Object.entries(labels).map(([code, label], index) => [
      quote(column),
      quote(code),
      quote(label),
      index + 1,
    ]),
  )
  return valuesSql(rows, ['coluna', 'codigo', 'rotulo', 'ordem'])
}

function valuesSql(rows: readonly (readonly unknown[])[], columns: readonly string[]): string {
  const values = rows.map(row => `  (${row.join(', ')})`).join(',\n')
  return `SELECT ${columns.join(', ')}\nFROM (VALUES\n${values}\n) AS v(${columns.join(', ')})\n`
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
