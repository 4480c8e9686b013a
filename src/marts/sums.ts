import {
  count,
  date,
  days,
  derived,
  duration,
  inCommon,
  type Mart,
  type MartColumn,
  moment,
  money,
  of,
  ofCompany,
  same,
  text,
} from './columns.ts'
import { requisitosBloqueantes } from './decisions.ts'
import { riscosPagamento } from './notices.ts'

/** Sums over live notices, and of what they tie up. A phase says nothing of the session: those in progress include past sessions. */

/** Makes the columns that split notices by `editais_ativos.situacao_sessao`. @param of the notices, in both languages. */
export function bySession(of: {
  readonly english: string
  readonly portuguese: string
}): readonly MartColumn[] {
  const { english, portuguese } = of
  return [
    count('editais_sessao_futura', `${english} whose session has not begun`, [
      'Editais com sessão futura',
      `Quantidade de ${portuguese} com sessão por vir`,
    ]),
    count('editais_sessao_passada', `${english} whose session is past`, [
      'Editais com sessão passada',
      `Quantidade de ${portuguese} cuja sessão já passou`,
    ]),
    count('editais_sem_sessao', `${english} without a plausible date of the session`, [
      'Editais sem data de sessão',
      `Quantidade de ${portuguese} sem data de sessão plausível`,
    ]),
    money('valor_sessao_futura', 'Sum of the plausible values of those whose session has not begun', [
      'Valor com sessão futura',
      'Soma dos valores informados dos que têm sessão por vir, em BRL',
    ]),
    money('valor_sessao_passada', 'Sum of the plausible values of those whose session is past', [
      'Valor com sessão passada',
      'Soma dos valores informados daqueles cuja sessão já passou, em BRL',
    ]),
    money('valor_sem_sessao', 'Sum of the plausible values of those without a date', [
      'Valor sem data de sessão',
      'Soma dos valores informados dos que não têm data de sessão plausível, em BRL',
    ]),
  ]
}

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
        'Risco de pagamento (código)',
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

/** What notices tie up, demand and cost, and how early they arrive. */

export const capitalPorSemana: Mart = {
  name: 'capital_por_semana',
  description:
    'Guarantees and investment that notices in progress tie up, by week of their session, if it has not begun',
  portuguese: [
    'Capital por semana',
    'Garantias e investimento que os editais em andamento exigem, por semana da sessão por vir',
  ],
  columns: [
    ...ofCompany,
    inCommon.semana,
    count('editais', 'Notices in progress with a session in that week; a republished one once', [
      'Editais',
      'Quantidade de editais em andamento com sessão na semana; o republicado conta uma vez',
    ]),
    count('sem_capital', 'Those whose analysis names neither guarantee nor investment', [
      'Sem valores',
      'Quantidade deles cuja análise não traz garantia nem investimento',
    ]),
    money('garantia_proposta', 'Sum of the guarantees of the proposals', [
      'Garantias de proposta',
      'Soma das garantias de proposta, em BRL',
    ]),
    money('garantia_contratual', 'Sum of the guarantees of the contracts', [
      'Garantias contratuais',
      'Soma das garantias contratuais, em BRL',
    ]),
    money('investimento', 'Sum of the investments', [
      'Investimento',
      'Soma dos investimentos totais, em BRL',
    ]),
    money('capital_total', 'Sum of the three', [
      'Capital total',
      'Soma das garantias e do investimento, em BRL',
    ]),
    inCommon.confirmados,
    money('capital_confirmado', 'capital_total of the confirmed ones', [
      'Capital confirmado',
      'Garantias e investimento dos editais com participação confirmada, em BRL',
    ]),
    money('na_sessao_confirmado', 'Guarantees of proposals of the confirmed ones, due at the session', [
      'Na sessão, confirmado',
      'Soma das garantias de proposta, devidas na sessão, dos editais com participação confirmada, em BRL',
    ]),
    money('na_sessao_a_confirmar', 'Guarantees of proposals of the others', [
      'Na sessão, a confirmar',
      'Soma das garantias de proposta, devidas na sessão, dos demais editais, em BRL',
    ]),
    money('na_assinatura_confirmado', 'Contract guarantees and investments of the confirmed: at signing', [
      'Na assinatura, confirmado',
      'Soma das garantias contratuais e do investimento, devidos na assinatura, depois da sessão, dos editais com participação confirmada, em BRL',
    ]),
    money('na_assinatura_a_confirmar', 'Contract guarantees and investments of the others', [
      'Na assinatura, a confirmar',
      'Soma das garantias contratuais e do investimento, devidos na assinatura, depois da sessão, dos demais editais, em BRL',
    ]),
  ],
}

export const exposicaoPagamento: Mart = {
  name: 'exposicao_pagamento',
  description: 'Notices in progress and their value by payment risk',
  portuguese: ['Exposição ao risco de pagamento', 'Editais em andamento e seu valor, por risco de pagamento'],
  columns: [
    ...ofCompany,
    ...of(riscosPagamento, 'risco_pagamento'),
    text('risco_pagamento_rotulo', 'risco_pagamento as readers write it; não avaliado without one', [
      'Risco de pagamento',
      'Risco por extenso: baixo, médio, alto, crítico ou desconhecido; não avaliado quando não há',
    ]),
    derived(
      'INTEGER',
      'ordem',
      'Order of the risks: 1 low to 4 critical, 5 unknown, 6 new in the API, 7 none',
      ['Ordem', 'Ordem dos riscos: 1 (baixo) a 4 (crítico), 5 (desconhecido), 6 (novo), 7 (não avaliado)'],
    ),
    inCommon.editaisEmAndamento,
    inCommon.confirmados,
    inCommon.semValorEntreEles,
    money('valor_em_andamento', 'Sum of the plausible values', [
      'Valor em andamento',
      'Soma dos valores estimados informados, em BRL; não inclui os editais sem valor',
    ]),
    money('valor_confirmado', 'Sum of the plausible values of the confirmed ones', [
      'Valor confirmado',
      'Soma dos valores informados dos que têm participação confirmada, em BRL',
    ]),
    ...bySession({ english: 'Live notices in progress', portuguese: 'editais em andamento' }),
  ],
}

export const participacaoMeEpp: Mart = {
  name: 'participacao_me_epp',
  description: 'Live notices and their value by whether they are reserved for small companies (ME/EPP)',
  portuguese: [
    'Exclusividade para ME e EPP',
    'Editais ativos e seu valor, conforme sejam ou não exclusivos para microempresas e empresas de pequeno porte',
  ],
  columns: [
    ...ofCompany,
    text(
      'participacao',
      'exclusivo, não exclusivo (quotas or lots may still be), or não informado: also before an analysis',
      [
        'Participação',
        'exclusivo (só ME/EPP), não exclusivo (ainda pode haver cotas ou lotes), ou não informado, também antes da análise',
      ],
    ),
    inCommon.editais,
    inCommon.editaisEmAndamento,
    inCommon.confirmados,
    inCommon.semValorEntreEles,
    inCommon.valorTotal,
    inCommon.valorEmAndamento,
    money('valor_sessao_futura', 'That of notices in progress whose session has not begun', [
      'Valor com sessão futura',
      'Soma dos valores informados dos editais em andamento com sessão por vir, em BRL',
    ]),
  ],
}

export const documentosFrequentes: Mart = {
  name: 'documentos_frequentes',
  description: 'Requirements that three live notices or more have, by category and title: what to keep ready',
  portuguese: [
    'Requisitos frequentes',
    'Requisitos que estão em três editais ativos ou mais, por categoria e título: o que convém manter em dia',
  ],
  columns: [
    ...of(requisitosBloqueantes, 'company', 'categoria', 'categoria_rotulo', 'requisito'),
    count('editais', 'Live notices with the requirement', [
      'Editais',
      'Quantidade de editais ativos com o requisito; um edital que o repete conta uma vez',
    ]),
    derived(
      'DOUBLE',
      'parcela',
      'Of the live notices with any requirement, the share that has this one, 0 to 1',
      ['Parcela dos editais', 'Dos editais ativos com algum requisito, a parcela que tem este, de 0 a 1'],
    ),
    count('vermelhos', 'Those in progress, with no past session, in which it is red', [
      'Vermelhos',
      'Quantidade deles, em andamento e sem sessão passada, em que está em vermelho',
    ]),
    count('amarelos', 'Those in progress, with no past session, in which it is yellow', [
      'Amarelos',
      'Quantidade deles, em andamento e sem sessão passada, em que está em amarelo',
    ]),
    count('verdes', 'Those in progress, with no past session, in which it is green', [
      'Verdes',
      'Quantidade deles, em andamento e sem sessão passada, em que está em verde',
    ]),
  ],
}

export const antecedenciaPorOrgao: Mart = {
  name: 'antecedencia_por_orgao',
  description:
    'Days from when the company began to follow a live notice to its session, by buyer: how early notices arrive',
  portuguese: [
    'Antecedência por órgão',
    'Dias entre a chegada de um edital ativo à empresa e a sessão, por órgão: com que antecedência os editais chegam',
  ],
  columns: [
    ...of(orgaos, 'company', 'orgao_cnpj', 'orgao', 'uf'),
    count('editais', 'Live notices with a session on or after the day they arrived', [
      'Editais',
      'Quantidade de editais ativos com sessão no dia em que chegaram ou depois',
    ]),
    count('editais_curtos', 'Those that arrived fewer than eight calendar days before it', [
      'Menos de 8 dias corridos',
      'Quantidade deles que chegaram menos de oito dias corridos antes da sessão',
    ]),
    days('dias_minimo', 'Fewest days', ['Menor antecedência', 'Menor quantidade de dias corridos']),
    duration('dias_mediana', 'Median of the days', ['Antecedência mediana', 'Mediana dos dias corridos']),
  ],
}

export const faixasDePreco: Mart = {
  name: 'faixas_de_preco',
  storedDaily: true,
  description:
    'Unit prices of comparable items, computed once a day: the same description and unit in three notices or more, also notices that are gone; without services, descriptions of one word, a 90th percentile of 1 or over 5 times the 10th, and the unit UST',
  portuguese: [
    'Faixas de preço',
    'Preços unitários de itens comparáveis, calculados uma vez por dia: a mesma descrição e unidade em três editais ou mais, mesmo que já excluídos; sem serviços, descrições de uma só palavra, as genéricas, em que o preço até o qual custam 90% dos itens passa de 5 vezes o preço até o qual custam 10%, as de preço 1 e as de UST',
  ],
  columns: [
    ...ofCompany,
    text(
      'descricao',
      'Description, in its most frequent spelling: case, spaces and invisible characters do not matter',
      [
        'Descrição do item',
        'Descrição, na grafia mais frequente: maiúsculas, espaços e caracteres invisíveis não importam',
      ],
    ),
    text('unidade', 'Unit of measure in one spelling, for example UN for Unidade; NULL without one', [
      'Unidade',
      'Unidade de medida em uma só grafia, por exemplo UN para Unidade; vazio quando não informada',
    ]),
    count('itens', 'Items with a plausible unit value', [
      'Itens',
      'Quantidade de itens com valor unitário confiável',
    ]),
    count('editais', 'Notices that they are in, three or more', [
      'Editais',
      'Quantidade de editais deles; três ou mais',
    ]),
    money('preco_min', 'Lowest unit value', ['Menor preço', 'Menor valor unitário estimado, em BRL']),
    money('preco_p10', '10th percentile of the unit values', [
      '10% custam até',
      'Um em cada dez itens custa até este valor unitário, em BRL',
    ]),
    money('preco_mediano', 'Median of the unit values', [
      'Preço mediano',
      'Mediana dos valores unitários estimados, em BRL',
    ]),
    money('preco_p90', '90th percentile of the unit values', [
      '90% custam até',
      'Nove em cada dez itens custam até este valor unitário, em BRL',
    ]),
    money('preco_max', 'Highest unit value', ['Maior preço', 'Maior valor unitário estimado, em BRL']),
    date('primeiro_dia', 'Local day on which the company began to follow the first of the notices', [
      'Primeiro edital em',
      'Dia em que a empresa passou a acompanhar o primeiro dos editais',
    ]),
    date('ultimo_dia', 'Local day on which the company began to follow the last of the notices', [
      'Último edital em',
      'Dia em que a empresa passou a acompanhar o último dos editais',
    ]),
  ],
}

export const precosPorOrgao: Mart = {
  name: 'precos_por_orgao',
  storedDaily: true,
  description:
    'Unit prices of live notices, computed once a day, beside the median of the same item (faixas_de_preco), by buyer: who estimates high, and who low',
  portuguese: [
    'Preços por órgão',
    'Preços unitários dos editais ativos, calculados uma vez por dia, ao lado da mediana do mesmo item (faixas de preço), por órgão: quem estima alto e quem estima baixo',
  ],
  columns: [
    ...of(orgaos, 'company', 'orgao_cnpj', 'orgao', 'uf'),
    count('itens', 'Items whose price can be compared', [
      'Itens comparáveis',
      'Quantidade de itens cujo preço pode ser comparado',
    ]),
    count('editais', 'Notices that they are in', ['Editais', 'Quantidade de editais deles']),
    derived(
      'DOUBLE',
      'diferenca_mediana',
      'Median of price ÷ median of the item, less 1: 0.1 is 10 percent above',
      ['Diferença mediana', 'Mediana do preço dividido pela mediana do item, menos 1: 0,1 é 10% acima'],
    ),
    count('itens_acima', 'Items more than 10 percent above the median', [
      'Itens acima',
      'Quantidade de itens mais de 10% acima da mediana',
    ]),
    count('itens_abaixo', 'Items more than 10 percent below it', [
      'Itens abaixo',
      'Quantidade de itens mais de 10% abaixo dela',
    ]),
  ],
}
