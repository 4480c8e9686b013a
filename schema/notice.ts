import { BRL } from './columns.ts'
import type { DocumentOf, Fields } from './record.ts'

/** docs/contract.md#phases-and-levels: the phases a notice goes through in the company's funnel. */
export const STATUSES = ['screening', 'analysis', 'pricing', 'ready', 'discarded', 'expired'] as const

type Status = (typeof STATUSES)[number]

/** Phases in which a notice is still in the funnel; the others are closed. */
export const OPEN_STATUSES: readonly string[] = [
  'screening',
  'analysis',
  'pricing',
  'ready',
] satisfies readonly Status[]

/**
 * docs/contract.md#notice: the fields of a notice as one company tracks it, exactly as documented, with their columns.
 * `src/core/pipeline/validate.ts` decides what happens to a document that differs.
 */
export const NOTICE = {
  id: {
    type: 'id',
    always: true,
    inAnalysis: true,
    api: 'Identifier of the notice for this company. Used in the path of the detail and analysis endpoints.',
    column: false,
  },
  pncp_id: {
    type: 'string',
    always: true,
    inAnalysis: true,
    api: 'Identifier at the national procurement portal, shape `<cnpj>-<year>-<sequence>`.',
    description: 'Identifier at the national procurement portal, <cnpj>-<year>-<sequence>',
    portuguese: [
      'ID no PNCP',
      'Identificador no Portal Nacional de Contratações Públicas: <cnpj>-<ano>-<sequencial>',
    ],
    derived: [
      {
        name: 'orgao_cnpj',
        type: 'VARCHAR',
        from: { pncpIdPart: 'cnpj' },
        description:
          "Buying body's CNPJ, 14 characters without punctuation, letters in capitals, from pncp_id; NULL if it cannot be read there",
        portuguese: [
          'CNPJ do órgão',
          'CNPJ do órgão comprador, 14 caracteres sem pontuação, letras em maiúsculas, tirado do ID no PNCP; vazio quando não se lê nele',
        ],
      },
      {
        name: 'pncp_ano',
        type: 'INTEGER',
        from: { pncpIdPart: 'year' },
        description: 'Year in pncp_id; NULL if it cannot be read there',
        portuguese: ['Ano no PNCP', 'Ano que consta no ID no PNCP; vazio quando não se lê nele'],
      },
      {
        name: 'pncp_sequencial',
        type: 'BIGINT',
        from: { pncpIdPart: 'sequence' },
        description: 'Sequence in pncp_id; NULL if it cannot be read there',
        portuguese: [
          'Sequencial no PNCP',
          'Número sequencial que consta no ID no PNCP; vazio quando não se lê nele',
        ],
      },
    ],
  },
  orgao: {
    type: 'string',
    inAnalysis: true,
    api: true,
    description: 'Buying body',
    portuguese: ['Órgão', 'Órgão comprador'],
  },
  objeto: {
    type: 'string',
    inAnalysis: true,
    api: true,
    description: 'Object of the contracting',
    portuguese: ['Objeto', 'Objeto da contratação'],
  },
  numero: {
    type: 'string',
    inAnalysis: true,
    api: 'Notice/process number.',
    description: 'Notice or process number',
    portuguese: ['Número', 'Número do edital ou do processo'],
  },
  modalidade: {
    type: 'string',
    inAnalysis: true,
    api: 'Procurement modality (for example an electronic auction).',
    description: 'Procurement modality',
    portuguese: ['Modalidade', 'Modalidade da licitação, por exemplo pregão eletrônico'],
  },
  uf: {
    type: 'string',
    inAnalysis: true,
    api: true,
    description: 'State (UF) of the buying body',
    portuguese: ['UF', 'Estado (UF) do órgão comprador'],
  },
  valor_estimado: {
    type: 'double',
    inAnalysis: true,
    api: 'Estimated value, in BRL.',
    unit: BRL,
    description: 'Estimated value as published; 0 can mean that it is secret',
    portuguese: [
      'Valor estimado',
      'Valor estimado como publicado, em BRL; 0 pode significar orçamento sigiloso',
    ],
  },
  data_sessao: {
    type: 'date-time',
    inAnalysis: true,
    api: true,
    description: 'Date of the public session',
    portuguese: ['Sessão (UTC)', 'Data e hora da sessão pública'],
  },
  pncp_url: {
    type: 'string',
    inAnalysis: true,
    api: true,
    description: 'Link to the notice at the originating portal',
    portuguese: ['Link do edital', 'Link do edital no portal de origem'],
  },
  status: {
    type: 'string',
    values: STATUSES,
    component: 'Status',
    always: true,
    inAnalysis: true,
    description: "Company's phase for the notice: screening, analysis, pricing, ready, discarded, expired",
    portuguese: [
      'Fase (código)',
      'Fase do edital na empresa: screening (triagem), analysis (análise), pricing (precificação), ready (pronto), discarded (descartado), expired (vencido)',
    ],
  },
  participation_confirmed: {
    type: 'boolean',
    always: true,
    api: true,
    description: 'Whether the company confirmed participation',
    portuguese: ['Participação confirmada', 'Se a empresa confirmou que participa'],
  },
  discard_reason: {
    type: 'string',
    api: 'Reason for discard; relevant when `status` = `discarded`.',
    description: 'Reason for discard, when status is discarded',
    portuguese: ['Motivo do descarte', 'Por que o edital foi descartado; só vale na fase discarded'],
  },
  committed_at: {
    type: 'date-time',
    api: true,
    description: 'When participation was confirmed',
    portuguese: ['Confirmado em (UTC)', 'Quando a participação foi confirmada'],
  },
  created_at: {
    type: 'date-time',
    always: true,
    api: 'Creation of the company-notice link.',
    description: 'When the company began to follow the notice',
    portuguese: ['Criado em (UTC)', 'Quando a empresa começou a acompanhar o edital'],
  },
  updated_at: {
    type: 'date-time',
    always: true,
    api: 'Last update.',
    description: "The API's last update of the notice",
    portuguese: ['Atualizado em (UTC)', 'Última atualização do edital, segundo a lista'],
  },
} as const satisfies Fields

export type Notice = DocumentOf<typeof NOTICE>

/** docs/contract.md#limits: bounds of the list endpoint. */
export const LIST_LIMIT = { min: 1, max: 200, default: 50 } as const

/**
 * An id that is safe as one segment of a URL's path: no separators, escapes, quotes, white space, and neither `.`
 * nor `..`. The contract has no maximum length; ours keeps URLs valid.
 */
const PLAIN_PATH_SEGMENT = /^(?!\.{1,2}$)[A-Za-z0-9._~:@+=-]{1,200}$/

/** Returns true for an id that may be put into `/editais/{id}`. */
export function isPlainPathSegment(id: string): boolean {
  return PLAIN_PATH_SEGMENT.test(id)
}
