import {
  count,
  date,
  days,
  emAndamento,
  fase,
  faseOrdem,
  flag,
  local,
  type Mart,
  money,
  notice,
  of,
  renamed,
  same,
  text,
} from '../mart_columns.ts'
import { riscosPagamento } from './risks.ts'

/** Live notices, one row each, and their sessions. */

export const editaisAtivos: Mart = {
  name: 'editais_ativos',
  description:
    'Live notices, one row each: all that the API still shows, with local times and plausible values',
  portuguese: [
    'Editais ativos',
    'Editais que a API ainda mostra, um por linha, com horas locais e valores confiáveis; inclui descartados e vencidos',
  ],
  columns: [
    ...notice,
    ...same('editais', 'pncp_id', 'orgao_cnpj', 'orgao', 'objeto', 'numero', 'modalidade', 'uf', 'status'),
    fase,
    faseOrdem,
    emAndamento,
    ...same('editais', 'participation_confirmed', 'discard_reason', 'valor_estimado'),
    money('valor_estimado_informado', 'Estimated value; NULL if it is 0, symbolic or a sentinel', [
      'Valor estimado informado',
      'Valor estimado em BRL para somas; vazio quando é 0 (pode ser sigiloso), simbólico ou suspeito',
    ]),
    flag(
      'valor_suspeito',
      'Whether the value is negative, below 1, only nines (eight or more), or 100 billion or more',
      [
        'Valor suspeito',
        'Se o valor estimado é negativo, entre 0 e 1 real, só de noves ou de 100 bilhões ou mais',
      ],
    ),
    ...same('editais', 'data_sessao'),
    local('data_sessao_local', 'Public session; NULL before 2010 and after 2060', [
      'Data e hora da sessão',
      'Sessão pública, na hora local; 00:00 quando a fonte só dá o dia',
    ]),
    date('data_sessao_dia', 'Local day of the public session', [
      'Dia da sessão',
      'Dia da sessão pública, no fuso local',
    ]),
    days('dias_ate_sessao', 'From today to the session; negative if it is past', [
      'Dias até a sessão',
      'Dias corridos de hoje até a sessão; 0: hoje; negativo: já passou',
    ]),
    local('criado_local', 'When the company began to follow the notice', [
      'Criado em',
      'Quando a empresa começou a acompanhar o edital, na hora local',
    ]),
    local('atualizado_local', "The API's last update of the notice", [
      'Atualizado em',
      'Última atualização do edital segundo a API, na hora local',
    ]),
    local('confirmado_local', 'When participation was confirmed', [
      'Confirmado em',
      'Quando a participação foi confirmada, na hora local',
    ]),
    ...same(
      'editais',
      'pncp_url',
      'analysis_state',
      'created_at',
      'updated_at',
      'first_seen_at',
      'changed_at',
    ),
  ],
}

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
    date('ultimo_dia_impugnacao', 'Last day to contest: the third business day before the session', [
      'Último dia para impugnar',
      'Terceiro dia útil antes da sessão (Lei 14.133/2021, art. 164), só com feriados nacionais; confira no edital',
    ]),
    days('dias_ate_impugnacao', 'From today to the last day to contest; negative if it is past', [
      'Dias para impugnar',
      'Dias corridos de hoje até o último dia para impugnar; negativo: já passou',
    ]),
    ...same('analyses', 'analysis_level', 'verdict_recommendation', 'verdict_reason'),
    count('itens', 'Items', ['Itens', 'Quantidade de itens do edital; 0 também quando ainda não analisado']),
    money('itens_valor_total', 'Sum of the total values of the items', [
      'Valor dos itens',
      'Soma dos valores totais dos itens, em BRL',
    ]),
    count('itens_selecionados', 'Items that the evaluation selected', [
      'Itens selecionados',
      'Quantidade de itens selecionados para a empresa',
    ]),
    money('itens_selecionados_valor', 'Sum of the total values of the selected items', [
      'Valor dos itens selecionados',
      'Soma dos valores totais dos itens selecionados, em BRL',
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
    renamed('prazo_impugnacao', 'analyses.overview_prazo_impugnacao', [
      'Prazo de impugnação (texto)',
      'Prazo para impugnar, como está escrito no edital',
    ]),
    ...of(riscosPagamento, 'risco_pagamento_fonte', 'risco_pagamento_orgao', 'risco_pagamento_precificacao'),
  ],
}

export const agendaSessoes: Mart = {
  name: 'agenda_sessoes',
  description: 'Sessions from today on of notices that are neither discarded nor expired',
  portuguese: ['Agenda de sessões', 'Sessões de hoje em diante de editais em andamento'],
  columns: [
    ...notice,
    ...of(editalResumo, 'data_sessao_local', 'data_sessao_dia'),
    text('dia_da_semana', 'Day of the week', [
      'Dia da semana',
      'segunda, terça, quarta, quinta, sexta, sábado ou domingo',
    ]),
    date('semana', 'Monday of the week of the session', ['Semana', 'Segunda-feira da semana da sessão']),
    ...of(editalResumo, 'dias_ate_sessao', 'ultimo_dia_impugnacao', 'dias_ate_impugnacao'),
    ...of(editalResumo, 'orgao', 'uf', 'modalidade', 'numero', 'objeto', 'fase', 'participation_confirmed'),
    ...of(editalResumo, 'valor_estimado_informado', 'verdict_recommendation'),
    ...of(editalResumo, 'requisitos_vermelhos', 'requisitos_amarelos', 'alertas_criticos', 'alertas_altos'),
    ...of(editalResumo, 'pncp_url'),
  ],
}
