import { count, flag, inCommon, type Mart, money, of, ofNotice, renamed, same, text } from './columns.ts'
import { prazosImpugnacao } from './deadlines.ts'
import { editaisAtivos } from './live_notices.ts'
import { riscosPagamento } from './risks.ts'

/** Live notices with their sums, one row each, and their sessions. */

export const editalResumo: Mart = {
  name: 'edital_resumo',
  description:
    'Live notices, one row each, with verdict, sums of items, requirements by colour and alerts by severity',
  portuguese: [
    'Resumo do edital',
    'Editais ativos, um por linha, com recomendação, somas dos itens, requisitos por cor e alertas por severidade',
  ],
  columns: [
    ...editaisAtivos.columns,
    ...of(prazosImpugnacao, 'ultimo_dia_impugnacao', 'dias_ate_impugnacao'),
    ...same('analyses', 'analysis_level', 'verdict_recommendation', 'verdict_reason'),
    count('itens', 'Items', ['Itens', 'Quantidade de itens do edital; 0 também quando ainda não analisado']),
    money('itens_valor_total', 'Sum of the plausible total values of the items', [
      'Valor dos itens',
      'Soma dos valores totais confiáveis dos itens, em BRL',
    ]),
    count('itens_selecionados', 'Items that the evaluation selected', [
      'Itens selecionados',
      'Quantidade de itens selecionados para a empresa',
    ]),
    money('itens_selecionados_valor', 'Sum of the plausible total values of the selected items', [
      'Valor dos itens selecionados',
      'Soma dos valores totais confiáveis dos itens selecionados, em BRL',
    ]),
    count('requisitos', 'Requirements', [
      'Requisitos',
      'Quantidade de requisitos de habilitação; 0 também quando ainda não analisado',
    ]),
    count('requisitos_vermelhos', 'Red requirements', [
      'Requisitos vermelhos',
      'Quantidade de requisitos em vermelho',
    ]),
    count('requisitos_amarelos', 'Yellow requirements', [
      'Requisitos amarelos',
      'Quantidade de requisitos em amarelo',
    ]),
    count('requisitos_verdes', 'Green requirements', [
      'Requisitos verdes',
      'Quantidade de requisitos em verde',
    ]),
    count('requisitos_sem_avaliacao', 'Requirements without a colour', [
      'Requisitos sem avaliação',
      'Quantidade de requisitos sem cor',
    ]),
    count('alertas', 'Alerts', ['Alertas', 'Quantidade de alertas de qualquer tipo e severidade']),
    count('oportunidades', 'Alerts that are opportunities', [
      'Oportunidades',
      'Quantidade de alertas que são oportunidades',
    ]),
    count('alertas_criticos', 'Alerts of critical severity, without opportunities', [
      'Alertas críticos',
      'Quantidade de alertas de severidade crítica, sem as oportunidades',
    ]),
    count('alertas_altos', 'Alerts of high severity, without opportunities', [
      'Alertas altos',
      'Quantidade de alertas de severidade alta, sem as oportunidades',
    ]),
    count('alertas_medios', 'Alerts of medium severity, without opportunities', [
      'Alertas médios',
      'Quantidade de alertas de severidade média, sem as oportunidades',
    ]),
    count('alertas_baixos', 'Alerts of low severity, without opportunities', [
      'Alertas baixos',
      'Quantidade de alertas de severidade baixa, sem as oportunidades',
    ]),
    renamed('investimento_total', 'analyses.pricing_investimento_total', [
      'Investimento total',
      'Investimento total previsto, em BRL; vazio antes da precificação',
    ]),
    renamed('garantia_proposta', 'analyses.pricing_garantia_proposta'),
    renamed('garantia_contratual', 'analyses.pricing_garantia_contratual'),
    renamed('margem_min', 'analyses.pricing_margem_min'),
    renamed('margem_max', 'analyses.pricing_margem_max'),
    ...of(riscosPagamento, 'risco_pagamento'),
    ...of(prazosImpugnacao, 'prazo_impugnacao'),
    ...of(riscosPagamento, 'risco_pagamento_fonte', 'risco_pagamento_orgao', 'risco_pagamento_precificacao'),
    ...of(prazosImpugnacao, 'regra_impugnacao'),
    count(
      'itens_sem_valor',
      'Items without a plausible total value: none, 0 (may be secret) or implausible',
      [
        'Itens sem valor informado',
        'Quantidade de itens sem valor total confiável: vazio, 0 (pode ser sigiloso) ou implausível',
      ],
    ),
    text('recomendacao', 'verdict_recommendation in Portuguese: Participar, Cautela, Não recomendado', [
      'Recomendação (rótulo)',
      'Participar, Cautela ou Não recomendado; vazio antes da avaliação',
    ]),
    text('nivel_analise', 'analysis_level in Portuguese: Nenhuma, Simples, Média, Profunda', [
      'Nível da análise (rótulo)',
      'Profundidade da análise: Nenhuma, Simples, Média ou Profunda',
    ]),
    ...of(
      riscosPagamento,
      'risco_pagamento_rotulo',
      'risco_pagamento_orgao_rotulo',
      'risco_pagamento_precificacao_rotulo',
    ),
    ...of(
      prazosImpugnacao,
      'certeza_impugnacao',
      'ultimo_dia_esclarecimento',
      'dias_ate_esclarecimento',
      'regra_esclarecimento',
      'certeza_esclarecimento',
    ),
    flag('registro_de_precos', 'Whether overview or pricing say that it is a price registration', [
      'Registro de preços',
      'Se a visão geral ou a precificação dizem que é registro de preços; vazio quando nenhuma informa',
    ]),
  ],
}

export const agendaSessoes: Mart = {
  name: 'agenda_sessoes',
  description: 'Sessions that have not begun, of notices that are neither discarded nor expired',
  portuguese: ['Agenda de sessões', 'Sessões por vir de editais em andamento'],
  columns: [
    ...ofNotice,
    ...of(editalResumo, 'data_sessao_local', 'data_sessao_dia'),
    text('dia_da_semana', 'Day of the week', [
      'Dia da semana',
      'segunda, terça, quarta, quinta, sexta, sábado ou domingo',
    ]),
    inCommon.semana,
    ...of(editalResumo, 'dias_ate_sessao', 'ultimo_dia_impugnacao', 'dias_ate_impugnacao'),
    ...of(editalResumo, 'orgao', 'uf', 'modalidade', 'numero', 'objeto', 'fase', 'participation_confirmed'),
    ...of(editalResumo, 'valor_estimado_informado', 'verdict_recommendation'),
    ...of(editalResumo, 'requisitos_vermelhos', 'requisitos_amarelos', 'alertas_criticos', 'alertas_altos'),
    ...of(editalResumo, 'pncp_url', 'regra_impugnacao', 'recomendacao', 'certeza_impugnacao'),
  ],
}
