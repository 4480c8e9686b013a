import { bySession } from './by_session.ts'
import {
  count,
  date,
  derived,
  inCommon,
  type Mart,
  type MartColumn,
  moment,
  of,
  ofCompany,
  same,
  text,
} from './columns.ts'
import { riscosPagamento } from './risks.ts'

/** Sums over live notices. */

const inProgress = { english: 'Live notices in progress', portuguese: 'editais em andamento' }

const sums: readonly MartColumn[] = [
  inCommon.editais,
  inCommon.editaisEmAndamento,
  inCommon.semValor,
  inCommon.valorTotal,
  inCommon.valorEmAndamento,
  inCommon.valorMediano,
  ...bySession(inProgress),
]

export const valorPorUf: Mart = {
  name: 'valor_por_uf',
  description: 'Live notices by state of the buyer',
  portuguese: ['Valor por UF', 'Editais ativos por estado do órgão'],
  columns: [
    ...ofCompany,
    text('uf', 'State (UF); não informada if unknown', [
      'UF',
      'Estado (UF) do órgão comprador; não informada quando não se sabe',
    ]),
    ...sums,
  ],
}

export const valorPorModalidade: Mart = {
  name: 'valor_por_modalidade',
  description: 'Live notices by modality',
  portuguese: ['Valor por modalidade', 'Editais ativos por modalidade'],
  columns: [
    ...ofCompany,
    text('modalidade', 'Modality; não informada if unknown', [
      'Modalidade',
      'Modalidade da licitação; não informada quando não se sabe',
    ]),
    ...sums,
  ],
}

export const orgaos: Mart = {
  name: 'orgaos',
  description: 'Buyers of live notices, one row each',
  portuguese: ['Órgãos', 'Órgãos compradores dos editais ativos, um por linha'],
  columns: [
    ...same('editais', 'company', 'orgao_cnpj'),
    text('orgao', 'Name of the buyer in its latest notice', [
      'Órgão',
      'Nome do órgão no edital atualizado por último',
    ]),
    text('uf', 'State (UF) in its latest notice', ['UF', 'Estado (UF) no edital atualizado por último']),
    inCommon.editais,
    inCommon.editaisEmAndamento,
    count('descartados', 'Live notices that are discarded', [
      'Editais descartados',
      'Quantidade de editais ativos na fase descartado',
    ]),
    derived('DOUBLE', 'parcela_descartada', 'Share of the notices that are discarded, 0 to 1', [
      'Parcela descartada',
      'Parcela dos editais ativos que foi descartada, de 0 a 1',
    ]),
    inCommon.valorTotal,
    inCommon.valorEmAndamento,
    text(
      'risco_pagamento',
      'Payment risk as in riscos_pagamento, in the latest notice where it is known, else in the latest that names one',
      [
        'Risco de pagamento',
        'Risco de pagamento que vale no último edital atualizado que traz um conhecido; vazio: nenhum foi avaliado',
      ],
    ),
    date('proxima_sessao_dia', 'Next session of a notice in progress', [
      'Próxima sessão',
      'Dia da próxima sessão de um edital em andamento; vazio quando não há',
    ]),
    ...of(riscosPagamento, 'risco_pagamento_fonte', 'risco_pagamento_orgao', 'risco_pagamento_precificacao'),
    ...bySession(inProgress),
    ...of(
      riscosPagamento,
      'risco_pagamento_rotulo',
      'risco_pagamento_orgao_rotulo',
      'risco_pagamento_precificacao_rotulo',
    ),
  ],
}

export const motivosDescarte: Mart = {
  name: 'motivos_descarte',
  description: 'Why live notices were discarded',
  portuguese: ['Motivos de descarte', 'Por que os editais ativos da fase descartado foram descartados'],
  columns: [
    ...ofCompany,
    inCommon.motivo,
    count('editais', 'Discarded notices', [
      'Editais descartados',
      'Quantidade de editais descartados por esse motivo',
    ]),
    inCommon.valorTotal,
    moment('ultimo_em', 'Last update of one of them', [
      'Atualizado por último (UTC)',
      'Última atualização de um edital com esse motivo',
    ]),
  ],
}
