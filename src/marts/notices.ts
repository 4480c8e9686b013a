import { grafias, republicacoes } from './basics.ts'
import {
  count,
  date,
  days,
  emAndamento,
  fase,
  faseOrdem,
  flag,
  inCommon,
  local,
  type Mart,
  money,
  of,
  ofNotice,
  renamed,
  same,
  text,
} from './columns.ts'

/** Live notices, one row each: what other marts of notices build on. */

export const editaisAtivos: Mart = {
  name: 'editais_ativos',
  description:
    'Live notices, one row each: all that the API still shows, with local times and plausible values',
  portuguese: [
    'Editais ativos',
    'Editais que ainda estão na lista, um por linha, com horas locais e valores confiáveis; inclui descartados e vencidos',
  ],
  columns: [
    ...ofNotice,
    ...same('editais', 'pncp_id', 'orgao_cnpj'),
    ...of(grafias, 'orgao'),
    ...same('editais', 'objeto', 'numero'),
    ...of(grafias, 'modalidade', 'uf'),
    ...same('editais', 'status'),
    fase,
    faseOrdem,
    emAndamento,
    ...same('editais', 'participation_confirmed'),
    ...of(grafias, 'discard_reason'),
    ...same('editais', 'valor_estimado'),
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
    local('data_sessao_local', 'Public session', [
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
      'Última atualização do edital segundo a lista, na hora local',
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
    text(
      'situacao_sessao',
      'futura: it has not begun, or is today without a time of day; passada; sem data: no plausible date',
      [
        'Situação da sessão',
        'futura (ainda não começou, ou é hoje sem hora marcada), passada ou sem data; no horário de SOURCE_TIMEZONE',
      ],
    ),
    ...of(republicacoes, 'contado_no_edital', 'contado_no_numero'),
    money(
      'valor_somado',
      'Estimated value for sums: NULL, too, if another notice of the same purchase counts',
      [
        'Valor para somas',
        'Valor estimado informado, em BRL, para somas; vazio também quando conta em outro edital da mesma compra (republicação)',
      ],
    ),
  ],
}

/** Which payment risk counts, if the buyer's report and the pricing both name one. */

export const riscosPagamento: Mart = {
  name: 'riscos_pagamento',
  description:
    "Payment risk of analysed notices: the buyer's report and the pricing, and which of them counts",
  portuguese: [
    'Riscos de pagamento',
    'Risco de pagamento dos editais analisados: o do relatório do órgão e o da precificação, e qual dos dois vale',
  ],
  columns: [
    ...same('analyses', 'company', 'edital_id'),
    text(
      'risco_pagamento',
      "Payment risk that counts: a known one before an unknown one, the buyer's report before the pricing",
      [
        'Risco de pagamento (código)',
        'Risco que vale: conhecido antes de desconhecido, o relatório do órgão antes da precificação; vazio: não avaliado',
      ],
    ),
    text('risco_pagamento_fonte', 'Where it comes from: relatório do órgão or precificação', [
      'Fonte do risco de pagamento',
      'De onde vem o risco que vale: relatório do órgão ou precificação',
    ]),
    flag('risco_conhecido', 'Whether it is known, that is other than desconhecido', [
      'Risco conhecido',
      'Se o risco que vale é outro que desconhecido',
    ]),
    renamed('risco_pagamento_orgao', 'analyses.orgao_report_payment_risk', [
      'Risco segundo o órgão (código)',
      'Risco de o órgão atrasar pagamentos, segundo dados públicos de transparência; vazio: não avaliado',
    ]),
    renamed('risco_pagamento_precificacao', 'analyses.pricing_risco_pagamento', [
      'Risco segundo a precificação (código)',
      'Risco de pagamento segundo a precificação; vazio: não avaliado',
    ]),
    text(
      'risco_pagamento_rotulo',
      'risco_pagamento as readers write it: baixo, médio, alto, crítico, desconhecido',
      ['Risco de pagamento', 'Risco que vale, por extenso: baixo, médio, alto, crítico ou desconhecido'],
    ),
    text('risco_pagamento_orgao_rotulo', 'risco_pagamento_orgao as readers write it', [
      'Risco segundo o órgão',
      'Risco segundo o relatório do órgão, por extenso',
    ]),
    text('risco_pagamento_precificacao_rotulo', 'risco_pagamento_precificacao as readers write it', [
      'Risco segundo a precificação',
      'Risco segundo a precificação, por extenso',
    ]),
  ],
}

/** Until when a notice may be contested. */

export const prazosImpugnacao: Mart = {
  name: 'prazos_impugnacao',
  orderBy: 'edital_id',
  description:
    'Last day to contest each live notice that has a session or states a day, and to ask questions about it, with the rule that gave the day',
  portuguese: [
    'Prazos de impugnação',
    'Último dia para impugnar cada edital ativo e para pedir esclarecimentos, com a regra que deu o dia: o edital ou, na falta, a lei',
  ],
  columns: [
    ...same('editais', 'company', 'edital_id'),
    ...of(editaisAtivos, 'data_sessao_dia'),
    renamed('prazo_impugnacao', 'analyses.overview_prazo_impugnacao', [
      'Prazo de impugnação (texto)',
      'Prazo para impugnar, como está escrito no edital',
    ]),
    renamed('lei_aplicavel', 'analyses.overview_lei_aplicavel'),
    text(
      'regra_impugnacao',
      'Rule that gave the day: what the notice states (date, business days, days, hours), else the law; presumida: no known law is named; a second one that gives a later day follows',
      [
        'Regra do prazo de impugnação',
        'O que deu o último dia: o texto do edital (data, dias úteis, dias corridos, horas) ou a lei; presumida: o edital não nomeia lei conhecida; depois de ponto e vírgula, a regra que daria outro dia',
      ],
    ),
    date(
      'ultimo_dia_impugnacao',
      'Last day to contest: the earlier one if several rules or optional days off leave a choice; national holidays and those of the state, not of the city; NULL for direct contracting without a stated term',
      [
        'Último dia para impugnar',
        'Último dia para impugnar, segundo a regra; na dúvida, o mais cedo; com feriados nacionais e do estado: feriado municipal o antecipa, confira no edital; vazio: contratação direta sem prazo no edital',
      ],
    ),
    days(
      'dias_ate_impugnacao',
      'From today to the last day to contest; negative if it is past, or the session has begun',
      [
        'Dias para impugnar',
        'Dias corridos de hoje até o último dia para impugnar; negativo: já passou, ou a sessão já começou',
      ],
    ),
    text(
      'certeza_impugnacao',
      'do edital: stated; da lei: by the law that the notice names; presumido: by Lei 14.133/2021 or a regulation that is not known; a confirmar: the text, the law or an optional day off leave another day possible',
      [
        'Certeza do prazo de impugnação',
        'do edital: escrito nele; da lei: da lei que o edital nomeia; presumido: lei ou regulamento presumido; a confirmar: texto, lei ou ponto facultativo deixam outro dia possível, e este é o mais cedo',
      ],
    ),
    text('ato_lido', 'Act that the clause names; NULL if it names none, or the day is by law', [
      'Ato nomeado',
      'Ato que a cláusula nomeia: impugnação; vazio quando não nomeia nenhum ou o dia vem da lei',
    ]),
    text('trecho_lido', 'Clause of the notice that the day was read from; NULL if the day is by law', [
      'Trecho do prazo de impugnação',
      'Cláusula do edital da qual o dia foi lido; vazio quando o dia vem da lei',
    ]),
    date('ultimo_dia_esclarecimento', 'Last day to ask questions, by the same rules', [
      'Último dia para pedir esclarecimentos',
      'Último dia para pedir esclarecimentos, pelas mesmas regras',
    ]),
    days(
      'dias_ate_esclarecimento',
      'From today to the last day to ask questions; negative if it is past, or the session has begun',
      [
        'Dias para pedir esclarecimentos',
        'Dias corridos de hoje até o último dia para pedir esclarecimentos; negativo: já passou, ou a sessão já começou',
      ],
    ),
    text('regra_esclarecimento', 'Rule that gave the day to ask questions', [
      'Regra do prazo de esclarecimento',
      'O que deu o último dia para pedir esclarecimentos: o texto do edital ou a lei',
    ]),
    text(
      'certeza_esclarecimento',
      'As certeza_impugnacao; presumido also if the notice states only a day to contest',
      [
        'Certeza do prazo de esclarecimento',
        'do edital, da lei, presumido (também quando o edital só traz o prazo de impugnação) ou a confirmar',
      ],
    ),
    text('trecho_esclarecimento', 'Clause of the notice that the day to ask questions was read from', [
      'Trecho do prazo de esclarecimento',
      'Cláusula do edital da qual o dia para esclarecimentos foi lido; vazio quando vem da lei',
    ]),
  ],
}

/** The columns of `prazos_impugnacao` that do not change from day to day. */
export const prazosCalculados: Mart = {
  name: 'prazos_calculados',
  storedFrom: {
    editais: ['edital_id', 'deleted_at', 'data_sessao', 'modalidade', 'uf'],
    analyses: ['edital_id', 'prazos_lidos', 'overview_prazo_impugnacao', 'overview_lei_aplicavel'],
  },
  orderBy: 'edital_id',
  description:
    'What prazos_impugnacao has, without the distances from today; stored, and computed again only if its inputs change',
  portuguese: [
    'Prazos calculados',
    'Os mesmos prazos de impugnação e de esclarecimento, sem os dias que faltam; guardados, e recalculados só quando mudam os dados de que dependem',
  ],
  columns: prazosImpugnacao.columns.filter(({ name }) => !name.startsWith('dias_ate_')),
}

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
    money(
      'itens_valor_total',
      'Sum of the plausible total values of the items; at most the value of the notice, if that is plausible and over 1',
      [
        'Valor dos itens',
        'Soma dos valores totais confiáveis dos itens, em BRL; no máximo o valor do edital, se for confiável e maior que 1',
      ],
    ),
    count('itens_selecionados', 'Items that the evaluation selected', [
      'Itens selecionados',
      'Quantidade de itens selecionados para a empresa',
    ]),
    money(
      'itens_selecionados_valor',
      'Sum of the plausible total values of the selected items; at most the value of the notice, if that is plausible and over 1',
      [
        'Valor dos itens selecionados',
        'Soma dos valores totais confiáveis dos itens selecionados, em BRL; no máximo o valor do edital, se for confiável e maior que 1',
      ],
    ),
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
      'Recomendação',
      'Participar, Cautela ou Não recomendado; vazio antes da avaliação',
    ]),
    text('nivel_analise', 'analysis_level in Portuguese: Nenhuma, Simples, Média, Profunda', [
      'Nível da análise',
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
    money(
      'itens_selecionados_valor_somado',
      'itens_selecionados_valor for sums: NULL if nothing limits it (the notice has no plausible value over 1), or another notice of the same purchase counts',
      [
        'Itens selecionados para somas',
        'Valor dos itens selecionados, em BRL, para somas; vazio quando nada o limita (o edital não tem valor confiável maior que 1) ou conta em outro edital da mesma compra',
      ],
    ),
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
    ...of(
      editalResumo,
      'pncp_url',
      'regra_impugnacao',
      'recomendacao',
      'certeza_impugnacao',
      'contado_no_edital',
      'contado_no_numero',
    ),
  ],
}
