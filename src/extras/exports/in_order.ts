import type { Mart } from '#schema/marts/marts.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'

/** Sessions, deadlines and observations: the latest first. The other marts sort their rows themselves. */
const ORDER: Readonly<Record<string, string>> = {
  fases: 'fase_ordem',
  rotulos: 'coluna, ordem',
  feriados: 'dia, uf NULLS FIRST, feriado',
  calendario: 'dia',
  editais_ativos: 'data_sessao_local DESC NULLS LAST, edital_id',
  edital_resumo: 'data_sessao_local DESC NULLS LAST, edital_id',
  riscos_pagamento: 'edital_id',
  prazos_calculados: 'ultimo_dia_impugnacao DESC, edital_id',
  prazos_impugnacao: 'ultimo_dia_impugnacao DESC, edital_id',
  passagens_por_fase: 'entrou_em DESC, edital_id',
  transicoes_de_fase: 'observado_em DESC, edital_id',
  pendencias_habilitacao: 'data_sessao_dia DESC NULLS LAST, edital_id, ordinal',
  alertas_juridicos: 'data_sessao_dia DESC NULLS LAST, edital_id, ordinal',
  itens_selecionados: 'data_sessao_dia DESC NULLS LAST, edital_id, ordinal',
  mudancas: 'observado_em DESC, edital_id, campo',
  mudancas_parecer: 'observado_em DESC, edital_id',
}

/**
 * Returns the `FROM` of a mart whose rows people read from top to bottom, company by company.
 * @param relation the mart, or what has its columns.
 */
export function inOrder({ name, columns }: Mart, relation = identifier(name)): string {
  const order = ORDER[name]
  if (order === undefined) return `FROM ${relation}`
  const company = columns.some(column => column.name === 'company') ? 'company, ' : ''
  return `FROM ${relation} ORDER BY ${company}${order}`
}
