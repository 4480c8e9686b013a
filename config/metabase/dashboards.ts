import {
  at,
  type CardSpec,
  chartCard,
  coloured,
  heat,
  MILLIONS,
  REAIS,
  scalarCard,
  tableCard,
} from './card_forms.ts'

/**
 * The dashboards in Metabase: their cards, layout and looks. A card's query is in `cards/<key>.sql`: the first
 * comment line is its name, the other comment lines its description.
 */

const UFS = [
  ...['AC', 'AL', 'AM', 'AP', 'BA', 'CE', 'DF', 'ES', 'GO', 'MA', 'MG', 'MS', 'MT', 'PA', 'PB', 'PE', 'PI'],
  ...['PR', 'RJ', 'RN', 'RO', 'RR', 'RS', 'SC', 'SE', 'SP', 'TO'],
]

/** A filter of a dashboard. It applies to the cards whose SQL has its `{{key}}`. */
export type FilterSpec = { readonly key: string; readonly name: string; readonly values: readonly string[] }

export type DashboardSpec = {
  readonly key: string
  readonly name: string
  readonly description: string
  readonly filters: readonly FilterSpec[]
  readonly cards: readonly CardSpec[]
}

const uf: FilterSpec = { key: 'uf', name: 'UF', values: UFS }

const RED = '#EF8C8C'
const YELLOW = '#F9D45C'
const LIGHTS = { colours: { Vermelhos: RED, Amarelos: YELLOW }, isStacked: true } as const
const SEVERITIES = coloured('Severidade', { crítica: RED, alta: YELLOW })
const ACTIONS = {
  Impugnação: '#E75454',
  Esclarecimento: '#F2A86F',
  Recurso: '#7172AD',
  Contrarrazão: '#A989C5',
  Nenhuma: '#C9CED3',
}
const CAPITAL = {
  'Na sessão, confirmado': '#227FD2',
  'Na sessão, a confirmar': '#A0CDF4',
  'Na assinatura, confirmado': '#7172AD',
  'Na assinatura, a confirmar': '#C5C5E3',
}
const WEEK = 'Seg | Ter | Qua | Qui | Sex | Sáb | Dom'

export const DASHBOARDS: readonly DashboardSpec[] = [
  {
    key: 'hoje',
    name: 'Hoje',
    description:
      'O que decidir hoje e nos próximos dias: sessões e prazos da semana, requisitos vermelhos das sessões por vir e o que mudou desde ontem. Horários locais.',
    filters: [uf],
    cards: [
      scalarCard('sessoes_7_dias', 'Sessões', at(0, 0, 6, 4)),
      scalarCard('sessoes_sem_confirmacao', 'Sessões', at(0, 6, 6, 4)),
      scalarCard('impugnacoes_5_dias', 'Editais', at(0, 12, 6, 4)),
      scalarCard('requisitos_vermelhos', 'Requisitos', at(0, 18, 6, 4)),
      tableCard(
        'atualizacao',
        at(4, 0, 24, 4),
        'Publicado em | Idade (min) | Última execução | Última execução boa | Editais ativos | Análises pendentes | Em quarentena',
      ),
      tableCard(
        'decisoes',
        at(8, 0, 24, 18),
        'Até | Decisão | Parecer | Análise | Órgão | Objeto | Valor | PNCP',
        { hidden: 'Dias | UF | Sessão' },
      ),
      tableCard(
        'decisoes_proximas',
        at(26, 0, 24, 18),
        'Até | Decisão | Parecer | Análise | Órgão | Objeto | Valor | PNCP',
        { hidden: 'Dias | UF | Sessão' },
      ),
      tableCard(
        'sessoes_da_semana',
        at(44, 0, 24, 16),
        'Sessão | Órgão | UF | Objeto | Valor | Parecer | Confirmada | Vermelhos | PNCP',
        { hidden: 'Dias' },
      ),
      tableCard(
        'analise_rasa_proxima',
        at(93, 0, 24, 16),
        'Sessão | Análise | Parecer | Órgão | UF | Objeto | Valor | Confirmada | PNCP',
      ),
      tableCard(
        'prazos_da_semana',
        at(60, 0, 24, 16),
        'Prazo | Certeza | Ação | Severidade | Alerta | Órgão | UF | Objeto | PNCP',
        { hidden: 'Dias | Sessão em', ...SEVERITIES },
      ),
      tableCard(
        'vermelhos_por_vir',
        at(76, 0, 24, 17),
        'Sessão em | Categoria | Requisito | Exigido | Situação atual | Edital | PNCP',
        { hidden: 'Dias | UF' },
      ),
      tableCard(
        'novidades',
        at(109, 0, 24, 16),
        'Visto em | Mudança | De | Para | Impugnar até | Órgão | Objeto | PNCP',
        { hidden: 'UF' },
      ),
    ],
  },
  {
    key: 'funil_e_carteira',
    name: 'Funil e carteira',
    description:
      'Quantos editais há em cada fase, quanto valem, quanto tempo ficam e por que são descartados. O funil e as carteiras mostram os de sessão por vir. Valores em reais; editais com valor sigiloso ou simbólico contam, mas não somam.',
    filters: [],
    cards: [
      scalarCard('editais_em_andamento', 'Editais', at(0, 0, 12, 4)),
      scalarCard('valor_em_disputa', 'Valor estimado', at(0, 12, 12, 4), MILLIONS),
      tableCard('em_andamento_por_sessao', at(4, 0, 9, 6), 'Sessão | Editais | Valor estimado'),
      {
        key: 'funil_por_fase',
        display: 'funnel',
        settings: {
          'funnel.dimension': 'Fase',
          'funnel.metric': 'Na fase ou adiante',
          'funnel.type': 'funnel',
        },
        at: at(4, 9, 15, 6),
      },
      tableCard(
        'disputa_por_parecer',
        at(10, 0, 24, 7),
        'Parecer | Editais | Valor estimado | Itens selecionados | Editais RP | Valor RP | Itens RP',
        { hidden: 'Sem valor | Itens sem valor do edital' },
      ),
      tableCard(
        'fases_em_numeros',
        at(17, 0, 24, 9),
        'Fase | Editais | Sessão futura | Sessão passada | Valor total | Valor mediano | Idade mediana | Mediana na fase',
        { hidden: 'Sem data | Sem valor | Medidos na fase | Já na fase na 1ª leitura' },
      ),
      chartCard('valor_por_uf', at(26, 0, 12, 18), ['UF', 'Valor em disputa'], { format: REAIS }),
      chartCard('valor_por_modalidade', at(26, 12, 12, 9), ['Modalidade', 'Editais']),
      chartCard('motivos_descarte', at(35, 12, 12, 9), ['Motivo', 'Editais']),
      chartCard('tempo_por_fase', at(44, 0, 24, 9), ['Fase', 'Concluídas (dias) | Em curso (dias)'], {
        colours: { 'Concluídas (dias)': '#227FD2', 'Em curso (dias)': '#F2A86F' },
      }),
      tableCard(
        'tempo_ate_analise',
        at(53, 0, 24, 14),
        'Semana | Editais | Analisados | Sem análise | Medidos | Mediana (dias) | Maior (dias)',
      ),
      tableCard(
        'maiores_editais',
        at(67, 0, 24, 18),
        'Valor | Órgão | UF | Objeto | Modalidade | Sessão | Parecer | PNCP',
        { hidden: 'Fase' },
      ),
    ],
  },
  {
    key: 'agenda_e_pendencias',
    name: 'Agenda e pendências',
    description:
      'As sessões por vir, o que falta para a habilitação e até quando se pode impugnar. Horários locais; o prazo de impugnação conta dias úteis com feriados nacionais.',
    filters: [uf],
    cards: [
      chartCard('sessoes_por_semana', at(0, 0, 12, 15), ['Semana', 'Sessões']),
      chartCard('pendencias_por_categoria', at(0, 12, 12, 15), ['Categoria', 'Vermelhos | Amarelos'], {
        colours: LIGHTS.colours,
      }),
      tableCard(
        'agenda',
        at(15, 0, 24, 18),
        'Sessão | Órgão | UF | Objeto | Valor | Parecer | Vermelhos | Impugnar até | PNCP',
        {
          hidden:
            'Dias | Certeza | Dia da semana | Regra do prazo | Modalidade | Número | Fase | Amarelos | Alertas críticos | Republicado no nº',
        },
      ),
      tableCard(
        'retificacoes',
        at(51, 0, 24, 16),
        'Visto em | Mudança | De | Para | Impugnar até | Órgão | Objeto | PNCP',
        { hidden: 'UF' },
      ),
      tableCard(
        'sessoes_antecipadas',
        at(67, 0, 24, 16),
        'De | Para | Dias a menos | Impugnar até | Confirmada | Órgão | Objeto | PNCP',
        { hidden: 'UF | Visto em' },
      ),
      tableCard(
        'pendencias',
        at(33, 0, 24, 18),
        'Sessão em | Cor | Categoria | Requisito | Exigido | Situação atual | Edital | PNCP',
        {
          hidden: 'Dias | Situação da sessão | UF | Fase | Notas',
          ...coloured('Cor', { vermelho: RED, amarelo: YELLOW }),
        },
      ),
      tableCard(
        'a_parte',
        at(83, 0, 24, 5),
        'Sessão | Editais | Vermelhos | Amarelos | Alertas críticos | Valor',
      ),
    ],
  },
  {
    key: 'riscos_juridicos',
    name: 'Riscos jurídicos',
    description:
      'Alertas das análises de editais em andamento, as ações que pedem e seus prazos, e o risco de pagamento dos órgãos. Números e gráficos são de sessões por vir, e também de editais sem data se há prazo aberto; a tabela tem também os outros, por último.',
    filters: [uf],
    cards: [
      scalarCard('alertas_criticos', 'Alertas', at(0, 0, 8, 4)),
      scalarCard('editais_com_risco', 'Editais', at(0, 8, 8, 4)),
      scalarCard('prazos_abertos', 'Alertas', at(0, 16, 8, 4)),
      chartCard('alertas_por_severidade', at(4, 0, 12, 9), ['Severidade | Ação', 'Alertas'], {
        colours: ACTIONS,
        isStacked: true,
      }),
      chartCard('alertas_por_tipo', at(4, 12, 12, 9), ['Tipo', 'Alertas']),
      chartCard('orgaos_com_alertas', at(13, 0, 24, 9), ['Órgão', 'Alertas']),
      tableCard(
        'alertas',
        at(22, 0, 24, 18),
        'Prazo | Certeza | Ação | Severidade | Alerta | Descrição | Edital | PNCP',
        {
          hidden:
            'Dias | UF | Sessão em | Regra do prazo | Tipo | Tese jurídica | Objeto | Fase | Situação da sessão',
          ...SEVERITIES,
        },
      ),
      tableCard(
        'prazos_perdidos',
        at(40, 0, 24, 16),
        'Prazo | Ação | Severidade | Alerta | Órgão | UF | Objeto | Sessão em | PNCP',
        { hidden: 'Há (dias)', ...SEVERITIES },
      ),
      tableCard(
        'risco_pagamento',
        at(56, 0, 24, 14),
        'Órgão | UF | Risco de pagamento | Relatório do órgão | Precificação | Valor em disputa | Próxima sessão',
        { hidden: 'Editais | Com sessão futura | Valor em andamento' },
      ),
    ],
  },
  {
    key: 'decisoes',
    name: 'Decisões',
    description:
      'O trabalho das próximas semanas, o capital que exige, o que bloqueia mais valor, o que se descartou ou perdeu contra o parecer, quanto custam itens comparáveis, e com que regularidade os editais foram lidos.',
    filters: [],
    cards: [
      tableCard(
        'carga_da_semana',
        at(0, 0, 24, 9),
        'Dia | Dia da semana | Feriado | Sessões | Confirmadas | Vermelhos | Valor das sessões | Alertas com prazo',
        { hidden: 'Amarelos' },
      ),
      chartCard('carga_por_semana', at(9, 0, 11, 10), ['Semana', 'Vermelhos | Amarelos'], LIGHTS),
      tableCard('mapa_de_prazos', at(9, 11, 13, 10), `Semana | ${WEEK}`, heat(WEEK, RED)),
      tableCard(
        'sessoes_simultaneas',
        at(19, 0, 24, 10),
        'Sessão | Dias | Sessões | Confirmadas | Valor | Órgãos',
      ),
      chartCard('capital_por_semana', at(29, 0, 24, 9), ['Semana', Object.keys(CAPITAL).join(' | ')], {
        format: REAIS,
        colours: CAPITAL,
        isStacked: true,
      }),
      tableCard(
        'exposicao_pagamento',
        at(38, 0, 24, 9),
        'Risco de pagamento | Editais | Valor em disputa | Valor confirmado',
        { hidden: 'Confirmados | Valor em andamento' },
      ),
      tableCard(
        'requisitos_bloqueantes',
        at(47, 0, 24, 15),
        'Requisito | Categoria | Editais | Valor bloqueado | Só este requisito | Valor só deste | Próxima sessão | Sem data',
      ),
      tableCard(
        'descartes_recomendados',
        at(62, 0, 14, 12),
        'Quando | Motivo | Parecer | Editais | Valor total',
        {
          hidden: 'Sem valor',
        },
      ),
      chartCard('perdidas_por_semana', at(62, 14, 10, 12), ['Semana', 'Participar | Cautela'], {
        colours: { Participar: '#84BB4C', Cautela: YELLOW },
        isStacked: true,
      }),
      tableCard(
        'sessoes_perdidas',
        at(74, 0, 24, 17),
        'Sessão em | Há (dias) | Órgão | UF | Objeto | Parecer | Valor | Vermelhos | PNCP',
        { hidden: 'Número | Fase' },
      ),
      tableCard(
        'mudancas_parecer',
        at(91, 0, 24, 17),
        'Visto em | Órgão | Objeto | De | Para | Sentido | Motivo | PNCP',
        coloured('Sentido', { pior: RED }),
      ),
      tableCard(
        'mudancas_analise',
        at(108, 0, 24, 16),
        'Visto em | Requisito ou alerta | Antes | Agora | Sentido | Sessão | Edital | PNCP',
        { hidden: 'Parte | Objeto', ...coloured('Sentido', { pior: RED }) },
      ),
      tableCard(
        'documentos_frequentes',
        at(124, 0, 24, 15),
        'Requisito | Categoria | Editais | % dos editais | Vermelhos | Amarelos | Verdes',
      ),
      tableCard(
        'antecedencia_por_orgao',
        at(139, 0, 24, 14),
        'Órgão | UF | Editais | Menos de 8 dias corridos | Menor (dias) | Mediana (dias)',
      ),
      tableCard(
        'participacao_me_epp',
        at(153, 0, 24, 7),
        'Participação | Editais | Em andamento | Confirmados | Valor em andamento | Valor em disputa | Valor total',
      ),
      tableCard(
        'faixas_de_preco',
        at(160, 0, 24, 18),
        'Item | Unidade | Editais | 10% até | Metade até | 90% até | Desde | Até',
        { hidden: 'Itens' },
      ),
      tableCard(
        'precos_por_orgao',
        at(178, 0, 24, 14),
        'Órgão | UF | Editais | Itens comparáveis | Diferença (%) | Acima de 10% | Abaixo de 10%',
      ),
      tableCard('servico', at(192, 0, 24, 15), 'Dia | Execuções | Boas | Boas (%) | Maior intervalo (h)'),
    ],
  },
]
