import { REPEATED_FIELDS } from '#schema/analysis.ts'

/*
 * Examples in the description: a notice that `editais sandbox` serves, so that its id works there, and its shortened
 * analysis.
 */

const EDITAL = {
  id: '7926aa638cf4b5cb04b82dc283992ef1',
  pncp_id: '78220050000171-2026-178',
  orgao: 'MUNICIPIO DE MACEIO',
  objeto:
    'Contratação de empresa para manutenção preventiva e corretiva de aparelhos de ar-condicionado, com fornecimento de peças, por 12 meses, nas unidades de Maceió',
  numero: '90215',
  modalidade: 'Pregão - Eletrônico',
  uf: 'AL',
  valor_estimado: 10072.92,
  data_sessao: '2026-07-31T13:00:00Z',
  pncp_url: 'https://pncp.gov.br/app/editais/78220050000171/2026/178',
  status: 'ready',
  participation_confirmed: true,
  committed_at: '2026-07-28T18:25:46.277Z',
  created_at: '2026-07-17T10:37:51.702Z',
  updated_at: '2026-07-28T22:49:05.981Z',
}

const SHARED = Object.fromEntries(Object.entries(EDITAL).filter(([name]) => REPEATED_FIELDS.includes(name)))

const ANALYSIS = {
  ...SHARED,
  analysis_level: 'deep',
  analyzed: true,
  verdict: {
    recommendation: 'cautela',
    reason: 'Há pendências sanáveis de habilitação antes da sessão.',
    summary:
      'Participar com cautela: certame de ar-condicionado promovido por MUNICIPIO DE MACEIO. Há pendências sanáveis de habilitação antes da sessão.',
    bullets: [
      'Entrega parcelada reduz a necessidade de capital de giro.',
      'Objeto aderente às atividades do CNAE principal.',
    ],
  },
  overview: {
    orgao_licitante: 'MUNICIPIO DE MACEIO',
    lei_aplicavel: 'Lei 14.133/2021',
    valor_estimado: 'R$ 10.072,92',
    is_srp: false,
    exclusivo_me_epp: false,
    prazo_impugnacao: '3 dias úteis antes da sessão',
    locais_entrega: ['MUNICIPIO DE MACEIO (AL)'],
  },
  requirements: [
    {
      category: 'qualificacao_tecnica',
      title: 'Atestado de capacidade técnica',
      required:
        'Atestado emitido por pessoa jurídica de direito público ou privado que comprove o fornecimento de, no mínimo, 50 % das quantidades do item ou lote.',
      current: 'Atestados somam 46 % das quantidades; falta complementar.',
      status: 'yellow',
      ai_notes: 'Risco moderado; há tempo para regularizar.',
    },
    {
      category: 'regularidade_trabalhista',
      title: 'CNDT',
      required: 'Certidão Negativa de Débitos Trabalhistas, na forma do Título VII-A da CLT.',
      current: 'Documento vigente no cadastro da empresa.',
      status: 'green',
      ai_notes: 'Comprovação suficiente.',
      metadata: { cct: 'SP008192/2026', piso_salarial: 2920.39 },
    },
  ],
  items: [
    {
      numero_item: 1,
      descricao: 'Manutenção preventiva de aparelho split 24.000 BTU/h, com ART do responsável técnico',
      quantidade: 6,
      unidade_medida: 'SV',
      valor_unitario_estimado: 153.44,
      valor_total: 920.64,
      material_ou_servico: 'S',
      numero_lote: null,
      criterio_julgamento_nome: 'Menor preço',
      ai_selected: true,
      ai_reasoning: 'Item compatível com o catálogo e com margem dentro da meta.',
      ai_confidence: 0.87,
    },
  ],
  alerts: [
    {
      type: 'risk',
      severity: 'high',
      title: 'Marca indicada sem justificativa técnica',
      description: 'O termo de referência descreve característica que aponta para um único fabricante.',
      action_type: 'impugnacao',
      legal_thesis:
        'A indicação de marca só é admitida nas hipóteses do art. 41, I, da Lei 14.133/2021, mediante justificativa formal.',
    },
  ],
  pricing: {
    investimento_total: 5654.93,
    garantia_proposta: 0,
    garantia_contratual: 503.65,
    margem_min: 0.1,
    margem_max: 0.204,
    risco_pagamento: 'baixo',
    is_srp: false,
    sigiloso: false,
  },
  orgao_report: { payment_risk: 'baixo', status: 'concluido' },
  operational: { prazo_entrega_dias: 35, parcelamento: 'mensal, por medição' },
}

/** Whole documents, for `components.examples`. */
export const EXAMPLES = {
  EditalPage: {
    summary: 'A page of one notice',
    value: { editais: [EDITAL], count: 1, total: 300, limit: 1, offset: 0 },
  },
  Edital: { summary: 'A notice that is ready', value: EDITAL },
  EditalAnalysis: { summary: 'A deep analysis, shortened', value: ANALYSIS },
} as const

/** Returns the content of an error: the schema, and bodies by name. */
export function errorBodies(
  bodies: Readonly<Record<string, object>>,
  schema: object = schemaReference('Error'),
): object {
  const examples = Object.fromEntries(Object.entries(bodies).map(([name, value]) => [name, { value }]))
  return { 'application/json': { schema, examples } }
}

const document = (name: keyof typeof EXAMPLES) => ({
  'application/json': {
    schema: schemaReference(name),
    examples: { [name]: { $ref: `#/components/examples/${name}` } },
  },
})
const MALFORMED_HOST = { error: 'bad_request', detail: 'The Host header is malformed.' }

/** By operation (`any` for all of them) and status. */
export const BODIES: Readonly<Record<string, Readonly<Record<string, object>>>> = {
  listEditais: {
    '200': document('EditalPage'),
    '400': errorBodies(
      {
        unknownStatus: { error: 'invalid_status', detail: 'unknown status: won' },
        malformedHost: MALFORMED_HOST,
      },
      { anyOf: [schemaReference('InvalidStatusError'), schemaReference('Error')] },
    ),
  },
  getEdital: { '200': document('Edital') },
  getEditalAnalysis: { '200': document('EditalAnalysis') },
  any: {
    '400': errorBodies({ malformedHost: MALFORMED_HOST }),
    '401': errorBodies({ refused: { error: 'unauthorized' } }),
    '404': errorBodies({ unknown: { error: 'not_found' } }),
    '405': errorBodies({ wrongMethod: { error: 'method_not_allowed' } }),
    '408': errorBodies({ late: { error: 'timeout' } }),
    '414': errorBodies({ long: { error: 'url_too_long' } }),
    '431': errorBodies({ large: { error: 'headers_too_large' } }),
    '500': errorBodies({ fault: { error: 'internal_error' } }),
  },
}

function schemaReference(name: string): { readonly $ref: string } {
  return { $ref: `#/components/schemas/${name}` }
}
