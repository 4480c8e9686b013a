import { z } from 'zod'
import { dateTime, noticeId, optional } from './fields.ts'
import { STATUSES } from './notice.ts'

export const ANALYSIS_LEVELS = ['none', 'simple', 'medium', 'deep'] as const

const freeForm = z.looseObject({})

const verdict = z.strictObject({
  recommendation: optional(z.enum(['participar', 'cautela', 'nao_recomendado'])),
  reason: optional(z.string()),
  summary: optional(z.string()),
  bullets: optional(z.array(z.string())),
})

/** Free-form: these fields are named in the contract, which gives types for four of them (for two only in samples). */
const overview = z.looseObject({
  orgao_licitante: optional(z.unknown()),
  lei_aplicavel: optional(z.string()),
  valor_estimado: optional(z.unknown()),
  is_srp: optional(z.boolean()),
  exclusivo_me_epp: optional(z.boolean()),
  prazo_impugnacao: optional(z.string()),
  locais_entrega: optional(z.unknown()),
  restricoes_participacao: optional(z.unknown()),
  atestado_capacidade_exigido: optional(z.unknown()),
  visita_tecnica_obrigatoria: optional(z.unknown()),
})

export const requirement = z.strictObject({
  category: optional(
    z.enum([
      'habilitacao_juridica',
      'qualificacao_tecnica',
      'qualificacao_economica',
      'regularidade_fiscal',
      'regularidade_trabalhista',
      'declaracoes',
      'amostras',
      'visita_tecnica',
      'certificacoes',
      'garantias',
      'programa_integridade',
      'outros',
    ]),
  ),
  title: optional(z.string()),
  required: optional(z.string()),
  current: optional(z.string()),
  status: optional(z.enum(['red', 'yellow', 'green'])),
  ai_notes: optional(z.string()),
  metadata: optional(freeForm),
})

export const item = z.strictObject({
  numero_item: optional(z.int()),
  descricao: optional(z.string()),
  quantidade: optional(z.number()),
  unidade_medida: optional(z.string()),
  valor_unitario_estimado: optional(z.number()),
  valor_total: optional(z.number()),
  material_ou_servico: optional(z.enum(['M', 'S'])),
  numero_lote: optional(z.int()),
  criterio_julgamento_nome: optional(z.string()),
  ai_selected: optional(z.boolean()),
  ai_reasoning: optional(z.string()),
  ai_confidence: optional(z.number()),
})

export const alert = z.strictObject({
  type: optional(z.enum(['risk', 'opportunity', 'info'])),
  severity: optional(z.enum(['critical', 'high', 'medium', 'low'])),
  title: optional(z.string()),
  description: optional(z.string()),
  action_type: optional(z.enum(['impugnacao', 'esclarecimento', 'recurso', 'contrarrazao', 'none'])),
  legal_thesis: optional(z.string()),
})

const pricing = z.strictObject({
  investimento_total: optional(z.number()),
  garantia_proposta: optional(z.number()),
  garantia_contratual: optional(z.number()),
  margem_min: optional(z.number()),
  margem_max: optional(z.number()),
  risco_pagamento: optional(z.enum(['', 'baixo', 'medio', 'alto', 'critico', 'desconhecido'])),
  is_srp: optional(z.boolean()),
  sigiloso: optional(z.boolean()),
})

const orgaoReport = z.strictObject({
  payment_risk: optional(z.string()),
  status: optional(z.string()),
})

/**
 * docs/contract.md#analysis: the structured analysis of one notice, exactly as documented. Empty sections
 * are legitimate: a notice that was only screened has no requirements or items yet.
 */
export const analysis = z.strictObject({
  id: noticeId,
  pncp_id: z.string(),
  orgao: optional(z.string()),
  objeto: optional(z.string()),
  numero: optional(z.string()),
  modalidade: optional(z.string()),
  uf: optional(z.string()),
  valor_estimado: optional(z.number()),
  data_sessao: optional(dateTime),
  pncp_url: optional(z.string()),
  status: z.enum(STATUSES),
  analysis_level: z.enum(ANALYSIS_LEVELS),
  analyzed: z.boolean(),
  verdict,
  overview: optional(overview),
  requirements: z.array(requirement),
  items: z.array(item),
  alerts: z.array(alert),
  pricing: optional(pricing),
  orgao_report: optional(orgaoReport),
  operational: optional(freeForm),
})

export type Analysis = z.infer<typeof analysis>
