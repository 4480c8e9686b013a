import { BRL } from './columns.ts'
import type { Part } from './record.ts'

/** The elements of the lists of an analysis (docs/contract.md#analysis), with the columns of their tables. */

export const REQUIREMENT = {
  component: 'Requirement',
  fields: {
    category: {
      type: 'string',
      values: [
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
      ],
      description: 'Kind of requirement',
      portuguese: ['Categoria', 'Tipo de requisito, por exemplo qualificacao_tecnica ou regularidade_fiscal'],
    },
    title: {
      type: 'string',
      description: 'Title',
      portuguese: ['Requisito', 'Título do requisito'],
    },
    required: {
      type: 'string',
      api: true,
      description: 'What the notice demands',
      portuguese: ['Exigência', 'O que o edital exige'],
    },
    current: {
      type: 'string',
      api: "Company's current state (when evaluated).",
      description: "Company's current state, when evaluated",
      portuguese: ['Situação da empresa', 'O que a empresa tem hoje para atender; vazio quando não avaliado'],
    },
    status: {
      type: 'string',
      values: ['red', 'yellow', 'green'],
      description: 'red, yellow or green',
      portuguese: [
        'Semáforo',
        'red (vermelho), yellow (amarelo) ou green (verde); vazio quando não avaliado',
      ],
    },
    ai_notes: {
      type: 'string',
      description: 'Notes of the evaluation',
      portuguese: ['Notas da avaliação', 'Observações da avaliação automática'],
    },
    metadata: {
      type: 'object',
      api: 'Semi-structured detail (collective agreements, salary floors, delivery, integrity-program trigger).',
      description: 'Semi-structured detail',
      portuguese: [
        'Detalhes',
        'Detalhes do requisito, por exemplo convenção coletiva e pisos salariais (texto JSON)',
      ],
    },
  },
} as const satisfies Part

export const ITEM = {
  component: 'Item',
  fields: {
    numero_item: {
      type: 'integer',
      description: 'Item number',
      portuguese: ['Número do item', 'Número do item no edital'],
    },
    descricao: {
      type: 'string',
      description: 'Description',
      portuguese: ['Descrição do item', 'Descrição do item no edital'],
      derived: [
        {
          name: 'descricao_limpa',
          type: 'VARCHAR',
          from: { cleanOf: 'descricao' },
          description:
            'Description with single spaces and without invisible characters; NULL if it is as it was sent',
          portuguese: [
            'Descrição limpa',
            'Descrição com espaços simples e sem caracteres invisíveis; vazio: igual à enviada',
          ],
          since: 10,
        },
      ],
    },
    quantidade: {
      type: 'number',
      unit: 'unidade_medida',
      description: 'Quantity',
      portuguese: ['Quantidade', 'Quantidade licitada, na unidade de medida do item'],
    },
    unidade_medida: {
      type: 'string',
      description: 'Unit of measure',
      portuguese: ['Unidade de medida', 'Unidade de medida da quantidade'],
    },
    valor_unitario_estimado: {
      type: 'number',
      unit: BRL,
      description: 'Estimated unit value',
      portuguese: [
        'Valor unitário estimado',
        'Valor estimado de uma unidade, em BRL; 0 pode significar sigiloso',
      ],
    },
    valor_total: {
      type: 'number',
      unit: BRL,
      description: 'Total value',
      portuguese: ['Valor total do item', 'Valor total do item, em BRL; 0 pode significar sigiloso'],
    },
    material_ou_servico: {
      type: 'string',
      values: ['M', 'S'],
      description: 'M material, S service',
      portuguese: ['Material ou serviço', 'M: material; S: serviço'],
    },
    numero_lote: {
      type: 'integer',
      nullable: true,
      api: true,
      description: 'Lot number',
      portuguese: ['Número do lote', 'Número do lote; vazio quando não há lotes'],
    },
    criterio_julgamento_nome: {
      type: 'string',
      api: 'Judging criterion name.',
      description: 'Judging criterion',
      portuguese: ['Critério de julgamento', 'Critério de julgamento, por exemplo menor preço'],
    },
    ai_selected: {
      type: 'boolean',
      description: 'Whether the evaluation selected the item for the company',
      portuguese: ['Item selecionado', 'Se a avaliação automática selecionou o item para a empresa'],
    },
    ai_reasoning: {
      type: 'string',
      description: 'Reason for the selection',
      portuguese: ['Justificativa da seleção', 'Por que a avaliação automática selecionou ou não o item'],
    },
    ai_confidence: {
      type: 'number',
      description: 'Confidence of the selection',
      portuguese: [
        'Confiança da seleção',
        'Confiança na seleção, na escala da API (o contrato não diz qual)',
      ],
    },
  },
} as const satisfies Part

export const ALERT = {
  component: 'Alert',
  fields: {
    type: {
      type: 'string',
      values: ['risk', 'opportunity', 'info'],
      description: 'risk, opportunity or info',
      portuguese: ['Tipo', 'risk (risco), opportunity (oportunidade) ou info (informação)'],
    },
    severity: {
      type: 'string',
      values: ['critical', 'high', 'medium', 'low'],
      description: 'critical, high, medium or low',
      portuguese: ['Severidade (código)', 'critical (crítica), high (alta), medium (média) ou low (baixa)'],
    },
    title: {
      type: 'string',
      description: 'Title',
      portuguese: ['Alerta', 'Título do alerta'],
    },
    description: {
      type: 'string',
      description: 'Description',
      portuguese: ['Descrição do alerta', 'Texto do alerta'],
    },
    action_type: {
      type: 'string',
      values: ['impugnacao', 'esclarecimento', 'recurso', 'contrarrazao', 'none'],
      description: 'impugnacao, esclarecimento, recurso, contrarrazao or none',
      portuguese: ['Ação (código)', 'impugnacao, esclarecimento, recurso, contrarrazao ou none (nenhuma)'],
    },
    legal_thesis: {
      type: 'string',
      nullable: true,
      description: 'Legal thesis',
      portuguese: ['Tese jurídica', 'Fundamento jurídico da ação; vazio quando não há'],
    },
  },
} as const satisfies Part
