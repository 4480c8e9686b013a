import { calendario, grafias } from './basics.ts'
import {
  count,
  date,
  days,
  derived,
  flag,
  inCommon,
  local,
  type Mart,
  moment,
  money,
  of,
  ofCompany,
  ofNotice,
  same,
  text,
} from './columns.ts'
import { agendaSessoes, editaisAtivos, editalResumo } from './notices.ts'
import { alertasJuridicos, pendenciasHabilitacao } from './parts.ts'

/** Decisions that were made or missed, and what they wait for. */

const verdict = of(editalResumo, 'verdict_recommendation', 'recomendacao')

export const decisoes: Mart = {
  name: 'decisoes',
  description:
    'Notices in progress that need a decision: recommended with a session in 7 days and not confirmed; confirmed for such a session with red requirements; or with critical or high alerts whose last day is in 5 days',
  portuguese: [
    'Para decidir',
    'Editais em andamento que esperam uma decisão: recomendados, com sessão em 7 dias e sem confirmação; confirmados para uma dessas sessões, com requisito vermelho; ou com alerta crítico ou alto cujo prazo acaba em 5 dias',
  ],
  columns: [
    ...ofNotice,
    date(
      'decidir_ate',
      'The business day before the session, or the first last day, whichever comes first; not before today',
      [
        'Decidir até',
        'Dia útil anterior à sessão ou primeiro dos prazos, o que vier antes; nunca antes de hoje',
      ],
    ),
    days('dias_ate_decidir', 'From today to that day; 0: today', [
      'Dias para decidir',
      'Dias corridos de hoje até lá; 0: hoje',
    ]),
    text('decisao', 'What to decide, in Portuguese', [
      'Decisão',
      'O que decidir: confirmar ou desistir, sanar requisitos vermelhos, impugnar, pedir esclarecimento',
    ]),
    ...of(editalResumo, 'recomendacao', 'nivel_analise', 'orgao_cnpj', 'orgao', 'uf', 'numero', 'modalidade'),
    ...of(editalResumo, 'objeto', 'fase', 'valor_estimado_informado', 'data_sessao_local'),
    ...of(editalResumo, 'participation_confirmed', 'requisitos_vermelhos', 'pncp_url', 'contado_no_numero'),
  ],
}

export const novidades: Mart = {
  name: 'novidades',
  description:
    'What was seen to change in notices, one row per change: new and gone ones, phase, session, object, value and verdict; the latest day first',
  portuguese: [
    'Novidades',
    'O que vimos mudar nos editais, uma mudança por linha: editais novos e os que saíram, fase, sessão, objeto, valor e parecer; primeiro o dia mais recente',
  ],
  columns: [
    ...ofNotice,
    text('mudanca', 'Kind of change, in Portuguese', [
      'Mudança',
      'Sessão antecipada, Sessão remarcada, Parecer alterado, Objeto alterado, Valor alterado, Saiu da lista, Novo edital ou Mudou de fase',
    ]),
    derived(
      'INTEGER',
      'mudanca_ordem',
      'Order of the kinds: what matters most first; in notices no longer in progress, last',
      [
        'Ordem da mudança',
        'Ordem das mudanças, da que mais importa à que menos importa; por último, as de editais que não estão mais em andamento',
      ],
    ),
    text('de', 'Before, in Portuguese; an object from where it changed; NULL for new and gone notices', [
      'De',
      'Como era; um objeto, a partir de onde mudou; vazio para editais novos e os que saíram',
    ]),
    text('para', 'After, in Portuguese; an object from where it changed; NULL for gone notices', [
      'Para',
      'Como ficou; um objeto, a partir de onde mudou; vazio para os que saíram',
    ]),
    moment(
      'observado_em',
      'When the change was first observed; created_at for what the first reading found',
      [
        'Observado em (UTC)',
        'Quando nós vimos a mudança pela primeira vez; o que a primeira leitura encontrou, quando passou a ser acompanhado',
      ],
    ),
    inCommon.observadoDia,
    ...of(grafias, 'orgao', 'uf'),
    ...same('editais', 'numero', 'objeto'),
    date('impugnar_ate', 'Last day to contest a notice in progress, if it is still to come', [
      'Impugnar até',
      'Último dia para impugnar um edital em andamento; vazio quando já passou',
    ]),
    ...same('editais', 'pncp_url'),
    flag(
      'retificacao',
      'Whether session, object or value changed after the company confirmed, or had a verdict',
      [
        'Retificação',
        'Se sessão, objeto ou valor mudou depois de a empresa confirmar a participação ou ter um parecer',
      ],
    ),
    ...of(editaisAtivos, 'contado_no_numero'),
  ],
}

export const retificacoes: Mart = {
  name: 'retificacoes',
  description:
    'Of novidades, what changed in a notice after the company confirmed or had a verdict: session, object or value, with the day to react',
  portuguese: [
    'Retificações',
    'Das novidades, o que mudou em um edital depois de a empresa confirmar a participação ou ter um parecer: sessão, objeto ou valor, com o dia para reagir',
  ],
  columns: [
    ...of(novidades, 'company', 'edital_id', 'mudanca', 'mudanca_ordem', 'de', 'para', 'observado_em'),
    ...of(novidades, 'observado_dia', 'orgao', 'uf', 'numero', 'objeto', 'impugnar_ate'),
    ...of(editaisAtivos, 'data_sessao_local', 'participation_confirmed', 'pncp_url', 'contado_no_numero'),
  ],
}

export const sessoesAntecipadas: Mart = {
  name: 'sessoes_antecipadas',
  description:
    'Sessions of live notices that were seen to move to an earlier moment, one row per move, with the last day to contest',
  portuguese: [
    'Sessões antecipadas',
    'Sessões de editais ativos que vimos passar para um momento anterior, uma mudança por linha, com o último dia para impugnar',
  ],
  columns: [
    ...ofNotice,
    local('sessao_anterior', 'Session before the move', ['Sessão anterior', 'Sessão antes da mudança']),
    local('sessao_nova', 'Session after the move; data_sessao_local is another one if it moved again', [
      'Nova sessão',
      'Sessão depois da mudança; se ela mudou de novo, a que vale é outra',
    ]),
    days('dias_antecipados', 'Days by which the session is earlier; 0: on the same day', [
      'Dias a menos',
      'Quantos dias corridos antes a sessão passou a ser; 0: no mesmo dia, mais cedo',
    ]),
    ...of(editalResumo, 'data_sessao_local', 'dias_ate_sessao', 'situacao_sessao', 'ultimo_dia_impugnacao'),
    ...of(editalResumo, 'dias_ate_impugnacao', 'certeza_impugnacao', 'participation_confirmed', 'fase'),
    ...of(editalResumo, 'em_andamento', 'orgao', 'uf', 'numero', 'objeto', 'valor_estimado_informado'),
    inCommon.observadoEm,
    inCommon.observadoDia,
    ...of(editaisAtivos, 'pncp_url', 'contado_no_numero'),
  ],
}

export const prazosPerdidos: Mart = {
  name: 'prazos_perdidos',
  description:
    'Critical and high alerts of notices in progress whose day to contest or to ask has passed, although the session has not begun or has no date',
  portuguese: [
    'Prazos perdidos',
    'Alertas críticos e altos de editais em andamento cujo prazo de impugnação ou esclarecimento passou, com sessão por vir ou sem data',
  ],
  columns: [
    ...of(
      alertasJuridicos,
      'company',
      'edital_id',
      'ordinal',
      'orgao_cnpj',
      'orgao',
      'uf',
      'numero',
      'objeto',
    ),
    ...of(alertasJuridicos, 'fase', 'severidade', 'severidade_ordem', 'titulo', 'descricao', 'acao', 'prazo'),
    days('dias_desde_prazo', 'Days since that day, at least 1', [
      'Dias desde o prazo',
      'Há quantos dias o prazo acabou; no mínimo 1',
    ]),
    ...of(alertasJuridicos, 'certeza_prazo', 'data_sessao_dia', 'situacao_sessao'),
    ...of(alertasJuridicos, 'pncp_url', 'contado_no_numero'),
  ],
}

export const analiseRasaProxima: Mart = {
  name: 'analise_rasa_proxima',
  description:
    'Notices in progress whose session is in five days, today included, and whose analysis is not deep',
  portuguese: [
    'Sessões sem análise profunda',
    'Editais em andamento com sessão de hoje aos quatro dias seguintes cuja análise não é profunda',
  ],
  columns: [
    ...ofNotice,
    ...of(
      editalResumo,
      'data_sessao_local',
      'dias_ate_sessao',
      'nivel_analise',
      'recomendacao',
      'orgao_cnpj',
    ),
    ...of(editalResumo, 'orgao', 'uf', 'numero', 'modalidade', 'objeto', 'fase', 'valor_estimado_informado'),
    ...of(editalResumo, 'participation_confirmed', 'pncp_url', 'contado_no_numero'),
  ],
}

export const sessoesSimultaneas: Mart = {
  name: 'sessoes_simultaneas',
  description: 'Times at which more than one session of notices in progress begins, one row each',
  portuguese: [
    'Sessões simultâneas',
    'Horários em que começa mais de uma sessão de editais em andamento, um por linha',
  ],
  columns: [
    ...ofCompany,
    ...of(agendaSessoes, 'data_sessao_local', 'data_sessao_dia', 'dias_ate_sessao'),
    count('sessoes', 'Sessions that begin then; that of a republished notice once', [
      'Sessões',
      'Quantidade de sessões que começam nesse horário; a de um edital republicado conta uma vez',
    ]),
    count('sessoes_confirmadas', 'Those in which the company confirmed to take part', [
      'Sessões confirmadas',
      'Quantidade dessas sessões com participação confirmada',
    ]),
    money('valor_total', 'Sum of their plausible values; NULL if none is known', [
      'Valor total',
      'Soma dos valores estimados informados dessas sessões, em BRL; vazio se nenhum for conhecido',
    ]),
    text('orgaos', 'Their buyers', ['Órgãos', 'Órgãos dessas sessões, separados por ponto e vírgula']),
  ],
}

export const descartesRecomendados: Mart = {
  name: 'descartes_recomendados',
  description:
    'Live notices that were discarded although the analysis recommends to take part, by reason and verdict',
  portuguese: [
    'Descartes de recomendados',
    'Editais ativos descartados embora o parecer seja Participar ou Cautela, por motivo e parecer',
  ],
  columns: [
    ...ofCompany,
    inCommon.motivo,
    ...verdict,
    count('editais', 'Discarded notices', [
      'Editais descartados',
      'Quantidade de editais descartados por esse motivo, com esse parecer',
    ]),
    inCommon.semValorEntreEles,
    inCommon.valorTotal,
    moment('ultimo_em', 'Last update of one of them', [
      'Atualizado por último (UTC)',
      'Última atualização de um deles',
    ]),
  ],
}

export const sessoesPerdidas: Mart = {
  name: 'sessoes_perdidas',
  description:
    'Live notices that the analysis recommends, whose session is over, and in which nobody confirmed to take part; without discarded ones',
  portuguese: [
    'Sessões perdidas',
    'Editais ativos com parecer Participar ou Cautela cuja sessão passou sem participação confirmada; sem os descartados',
  ],
  columns: [
    ...ofNotice,
    ...of(editaisAtivos, 'orgao_cnpj', 'orgao', 'uf', 'numero', 'modalidade', 'objeto', 'status', 'fase'),
    ...of(editaisAtivos, 'data_sessao_dia'),
    inCommon.semana,
    days('dias_desde_sessao', 'Days since the session, at least 1', [
      'Dias desde a sessão',
      'Há quantos dias foi a sessão; no mínimo 1',
    ]),
    ...verdict,
    ...of(editalResumo, 'verdict_reason', 'valor_estimado_informado', 'requisitos_vermelhos', 'pncp_url'),
    ...of(editaisAtivos, 'valor_somado', 'contado_no_numero'),
  ],
}

export const mudancasParecer: Mart = {
  name: 'mudancas_parecer',
  description: 'Every observed change of the verdict of an analysis; the first verdict of a notice is none',
  portuguese: [
    'Mudanças de parecer',
    'Cada mudança que nós vimos no parecer de uma análise; o primeiro parecer de um edital não é mudança',
  ],
  columns: [
    ...ofNotice,
    ...same('editais', 'orgao', 'objeto'),
    text('de', 'Verdict before; NULL if there was none', [
      'Parecer anterior (código)',
      'Parecer antes da mudança; vazio: não havia',
    ]),
    text('para', 'Verdict after; NULL if there is none any more', [
      'Novo parecer (código)',
      'Parecer depois da mudança; vazio: deixou de haver',
    ]),
    text('de_rotulo', 'de in Portuguese: Participar, Cautela, Não recomendado', [
      'Parecer anterior',
      'Parecer antes da mudança: Participar, Cautela ou Não recomendado',
    ]),
    text('para_rotulo', 'para in Portuguese: Participar, Cautela, Não recomendado', [
      'Novo parecer',
      'Parecer depois da mudança: Participar, Cautela ou Não recomendado',
    ]),
    text('sentido', 'melhor or pior than before, novo (none before), retirado (none after), outro', [
      'Sentido',
      'melhor ou pior que antes; novo: não havia parecer; retirado: deixou de haver; outro: parecer desconhecido',
    ]),
    ...same('analysis_versions', 'verdict_reason'),
    inCommon.observadoEm,
    inCommon.observadoDia,
    ...of(editaisAtivos, 'pncp_url', 'contado_no_numero'),
  ],
}

export const mudancasAnalise: Mart = {
  name: 'mudancas_analise',
  description:
    'Requirements and alerts that appeared, went or changed their state between two analyses of a notice; the first ones of a notice do not count as changes',
  portuguese: [
    'Requisitos e alertas alterados',
    'Requisitos e alertas que surgiram, saíram ou mudaram de semáforo ou severidade entre duas análises de um edital; os primeiros de um edital não contam como mudança',
  ],
  columns: [
    ...ofNotice,
    ...same('editais', 'orgao', 'numero', 'objeto'),
    text('parte', 'Requisito, Alerta or Oportunidade', [
      'Parte da análise',
      'O que mudou: Requisito, Alerta ou Oportunidade',
    ]),
    text('titulo', 'Its title, by which it is found again; sem título without one', [
      'Requisito ou alerta',
      'Título do requisito ou alerta, pelo qual o reencontramos na análise seguinte; sem título quando vazio',
    ]),
    text('de', 'State before, in Portuguese; NULL if it was not there', [
      'Antes',
      'Semáforo do requisito, ou severidade do alerta, na análise anterior; vazio: não havia',
    ]),
    text('para', 'State after, in Portuguese; NULL if it is not there any more', [
      'Agora',
      'Semáforo do requisito, ou severidade do alerta, na análise nova; vazio: saiu da análise',
    ]),
    text(
      'sentido',
      'melhor or pior than before, novo (was not there), retirado (is gone), outro (not assessed before or after, a new code, or an opportunity)',
      [
        'Sentido',
        'melhor ou pior que antes; novo: não havia; retirado: saiu da análise; outro: sem avaliação antes ou agora, valor desconhecido, ou oportunidade',
      ],
    ),
    ...of(editalResumo, 'data_sessao_local'),
    inCommon.observadoEm,
    inCommon.observadoDia,
    ...of(editaisAtivos, 'pncp_url', 'contado_no_numero'),
  ],
}

export const requisitosBloqueantes: Mart = {
  name: 'requisitos_bloqueantes',
  description:
    'Red requirements of notices in progress whose session has not begun, by category and title, with the value that they block; apart, notices without a date',
  portuguese: [
    'Requisitos bloqueantes',
    'Requisitos em vermelho dos editais em andamento com sessão por vir, por categoria e título, e o valor que bloqueiam; à parte, os editais sem data',
  ],
  columns: [
    ...ofCompany,
    ...of(pendenciasHabilitacao, 'categoria', 'categoria_rotulo'),
    text('requisito', 'Title, as most notices write it; sem título without one', [
      'Requisito',
      'Título do requisito, em uma das grafias; sem título quando vazio',
    ]),
    count('editais', 'Notices in which it is red', [
      'Editais',
      'Quantidade de editais em que está em vermelho',
    ]),
    inCommon.semValorEntreEles,
    money('valor_total', 'Sum of the plausible values of these notices', [
      'Valor bloqueado',
      'Soma dos valores informados desses editais, em BRL; um edital conta em cada requisito que o bloqueia',
    ]),
    count('editais_so_este', 'Notices in which nothing else is red', [
      'Editais só com este',
      'Quantidade de editais em que nada mais está em vermelho',
    ]),
    money('valor_so_este', 'Sum of the plausible values of the notices in which nothing else is red', [
      'Valor bloqueado só por este',
      'Soma dos valores informados dos editais em que nada mais está em vermelho, em BRL',
    ]),
    date('proxima_sessao_dia', 'Next session of one of these notices', [
      'Próxima sessão',
      'Dia da próxima sessão de um desses editais; vazio quando nenhum tem data',
    ]),
    count('editais_sem_sessao', 'Notices without a date of the session in which it is red', [
      'Editais sem data de sessão',
      'Quantidade de editais sem data de sessão em que está em vermelho',
    ]),
    money('valor_sem_sessao', 'Sum of the plausible values of these notices', [
      'Valor sem data de sessão',
      'Soma dos valores informados desses editais sem data de sessão, em BRL',
    ]),
  ],
}

/** The work ahead, day by day. */
export const cargaDeTrabalho: Mart = {
  name: 'carga_de_trabalho',
  description:
    'The next 56 days, today included, one row each: sessions and deadlines of notices in progress, and their open requirements',
  portuguese: [
    'Carga de trabalho',
    'Os próximos 56 dias, a começar por hoje, um por linha: sessões e prazos dos editais em andamento, e o que falta para a habilitação',
  ],
  columns: [
    ...ofCompany,
    date('dia', 'Local day', ['Dia', 'Dia, no fuso local']),
    date('semana', 'Monday of the week', ['Semana', 'Segunda-feira da semana']),
    ...of(agendaSessoes, 'dia_da_semana'),
    derived('INTEGER', 'dia_da_semana_ordem', 'Day of the week from 1, Monday, to 7, Sunday', [
      'Ordem do dia da semana',
      'Dia da semana, de 1 (segunda) a 7 (domingo)',
    ]),
    days('dias_ate', 'Days from today, 0 to 55', ['Dias até lá', 'Dias a partir de hoje, de 0 a 55']),
    ...of(calendario, 'dia_util', 'feriado'),
    count('sessoes', 'Sessions', ['Sessões', 'Quantidade de sessões de editais em andamento no dia']),
    count('sessoes_confirmadas', 'Sessions in which the company confirmed to take part', [
      'Sessões confirmadas',
      'Quantidade dessas sessões com participação confirmada',
    ]),
    count('requisitos_vermelhos', 'Red requirements of these notices', [
      'Requisitos vermelhos',
      'Requisitos em vermelho desses editais',
    ]),
    count('requisitos_amarelos', 'Yellow requirements of these notices', [
      'Requisitos amarelos',
      'Requisitos em amarelo desses editais',
    ]),
    money('valor_total', 'Sum of the plausible values of these notices', [
      'Valor das sessões',
      'Soma dos valores estimados informados desses editais, em BRL',
    ]),
    count('alertas_com_prazo', 'Alerts whose deadline to contest or to ask is on that day', [
      'Alertas com prazo',
      'Quantidade de alertas com prazo de impugnação ou esclarecimento no dia',
    ]),
    count('editais_com_prazo', 'Notices with such an alert', [
      'Editais com prazo',
      'Quantidade de editais com um desses alertas',
    ]),
  ],
}
