/**
 * The dashboards in Metabase: their cards, layout and looks. A card's query is in `cards/<key>.sql`: the first
 * comment line is its name, the other comment lines its description.
 */

const UFS = [
  ...['AC', 'AL', 'AM', 'AP', 'BA', 'CE', 'DF', 'ES', 'GO', 'MA', 'MG', 'MS', 'MT', 'PA', 'PB', 'PE', 'PI'],
  ...['PR', 'RJ', 'RN', 'RO', 'RR', 'RS', 'SC', 'SE', 'SP', 'TO'],
]

type Display = 'scalar' | 'table' | 'funnel' | 'bar' | 'row'

export type CardSpec = {
  /** Identifies the card's file, and the card in Metabase permanently: another key is another card. */
  readonly key: string
  readonly display: Display
  /** Metabase's visualization settings; keys and values are those of its frontend. */
  readonly settings: Readonly<Record<string, unknown>>
  /** In cells of a grid 24 cells wide. */
  readonly at: { readonly row: number; readonly col: number; readonly width: number; readonly height: number }
}

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

type Format = Readonly<Record<string, unknown>>
const BRL: Format = { number_style: 'currency', currency: 'BRL', currency_style: 'symbol' }
const LINK: Format = { view_as: 'link', link_text: 'abrir' }
const WRAPPED: Format = { text_wrapping: true }
const SHARES = ['10% custam até', 'Metade custa até', '90% custam até']

/** Metabase identifies a column of a native question by this JSON. */
const column = (name: string) => JSON.stringify(['name', name])

function formats(those: Readonly<Record<string, Format>>) {
  return {
    column_settings: Object.fromEntries(
      Object.entries(those).map(([name, format]) => [column(name), format]),
    ),
  }
}

const chart = (dimensions: readonly string[], metrics: readonly string[], more = {}) => ({
  'graph.dimensions': dimensions,
  'graph.metrics': metrics,
  'graph.show_values': true,
  'graph.x_axis.labels_enabled': false,
  'graph.y_axis.labels_enabled': false,
  ...more,
})

const CAPITAL: Readonly<Record<string, string>> = {
  'Na sessão, confirmado': '#227FD2',
  'Na sessão, a confirmar': '#A0CDF4',
  'Na assinatura, confirmado': '#7172AD',
  'Na assinatura, a confirmar': '#C5C5E3',
}
/** A chart draws this column alone; the card has past sessions in columns of their own. */
const AHEAD = 'Sessão futura'

const stacked = { 'stackable.stack_type': 'stacked' }

/** Colours the cells of a column whose text is exactly this value. */
const coloured = (name: string, colours: Readonly<Record<string, string>>) => ({
  'table.column_formatting': Object.entries(colours).map(([value, color]) => ({
    columns: [name],
    type: 'single',
    operator: '=',
    value,
    color,
    highlight_row: false,
  })),
})

const RED = '#EF8C8C'
const YELLOW = '#F9D45C'

/** Colours the cells of columns from white to `color`, by their largest number. */
const heat = (columns: readonly string[], color: string) => ({
  'table.column_formatting': [
    { columns, type: 'range', colors: ['#FFFFFF', color], min_type: 'custom', min_value: 0, max_type: 'all' },
  ],
})

const at = (row: number, col: number, width: number, height: number) => ({ row, col, width, height })

const scalar = (key: string, field: string, place: CardSpec['at'], format?: Format): CardSpec => ({
  key,
  display: 'scalar',
  settings: { 'scalar.field': field, ...(format ? formats({ [field]: format }) : {}) },
  at: place,
})

export const DASHBOARDS: readonly DashboardSpec[] = [
  {
    key: 'funil_e_carteira',
    name: 'Funil e carteira',
    description:
      'Quantos editais há em cada fase, quanto valem, quanto tempo ficam e por que são descartados. O funil e as carteiras mostram os de sessão por vir. Valores em reais; editais com valor sigiloso ou simbólico contam, mas não somam.',
    filters: [],
    cards: [
      scalar('editais_em_andamento', 'Editais', at(0, 0, 6, 3)),
      scalar('valor_em_disputa', 'Valor estimado', at(0, 6, 9, 3), BRL),
      scalar('valor_em_andamento', 'Valor estimado', at(0, 15, 9, 3), BRL),
      {
        key: 'em_andamento_por_sessao',
        display: 'table',
        settings: formats({ 'Valor estimado': BRL }),
        at: at(3, 0, 10, 4),
      },
      { key: 'atualizacao', display: 'table', settings: {}, at: at(3, 10, 14, 4) },
      {
        key: 'disputa_por_parecer',
        display: 'table',
        settings: formats({
          'Valor estimado': BRL,
          'Itens selecionados': BRL,
          'Valor RP': BRL,
          'Itens RP': BRL,
        }),
        at: at(7, 0, 24, 5),
      },
      {
        key: 'funil_por_fase',
        display: 'funnel',
        settings: {
          'funnel.dimension': 'Fase',
          'funnel.metric': 'Na fase ou adiante',
          'funnel.type': 'funnel',
        },
        at: at(12, 0, 11, 6),
      },
      {
        key: 'fases_em_numeros',
        display: 'table',
        settings: formats({ 'Valor total': BRL, 'Valor mediano': BRL }),
        at: at(12, 11, 13, 6),
      },
      {
        key: 'valor_por_uf',
        display: 'bar',
        settings: {
          ...chart(['UF'], [AHEAD]),
          ...formats({ [AHEAD]: BRL }),
        },
        at: at(18, 0, 15, 7),
      },
      {
        key: 'valor_por_modalidade',
        display: 'row',
        settings: chart(['Modalidade'], [AHEAD]),
        at: at(18, 15, 9, 7),
      },
      {
        key: 'tempo_por_fase',
        display: 'bar',
        settings: chart(['Fase'], ['Concluídas (dias)', 'Em curso (dias)']),
        at: at(25, 0, 12, 6),
      },
      {
        key: 'motivos_descarte',
        display: 'row',
        settings: chart(['Motivo'], ['Editais']),
        at: at(25, 12, 12, 6),
      },
      {
        key: 'maiores_editais',
        display: 'table',
        settings: formats({ 'Valor estimado': BRL, Objeto: WRAPPED, PNCP: LINK }),
        at: at(31, 0, 24, 9),
      },
    ],
  },
  {
    key: 'agenda_e_pendencias',
    name: 'Agenda e pendências',
    description:
      'As sessões por vir, o que falta para a habilitação e até quando se pode impugnar. Horários locais; o prazo de impugnação conta dias úteis com feriados nacionais.',
    filters: [uf],
    cards: [
      scalar('sessoes_7_dias', 'Sessões', at(0, 0, 6, 3)),
      scalar('sessoes_sem_confirmacao', 'Sessões', at(0, 6, 6, 3)),
      scalar('impugnacoes_5_dias', 'Editais', at(0, 12, 6, 3)),
      scalar('requisitos_vermelhos', 'Requisitos', at(0, 18, 6, 3)),
      {
        key: 'sessoes_por_semana',
        display: 'bar',
        settings: chart(['Semana'], ['Sessões'], { 'graph.x_axis.scale': 'timeseries' }),
        at: at(3, 0, 12, 6),
      },
      {
        key: 'pendencias_por_categoria',
        display: 'bar',
        settings: {
          ...chart(['Categoria'], ['Vermelhos', 'Amarelos'], stacked),
          series_settings: { Vermelhos: { color: RED }, Amarelos: { color: YELLOW } },
        },
        at: at(3, 12, 12, 6),
      },
      {
        key: 'agenda',
        display: 'table',
        settings: formats({ 'Valor estimado': BRL, Objeto: WRAPPED, PNCP: LINK }),
        at: at(9, 0, 24, 9),
      },
      {
        key: 'pendencias',
        display: 'table',
        settings: {
          ...formats({ Exigido: WRAPPED, 'Situação atual': WRAPPED }),
          ...coloured('Cor', { vermelho: RED, amarelo: YELLOW }),
        },
        at: at(18, 0, 24, 9),
      },
    ],
  },
  {
    key: 'riscos_juridicos',
    name: 'Riscos jurídicos',
    description:
      'Alertas das análises de editais em andamento, as ações que pedem e seus prazos, e o risco de pagamento dos órgãos. Números e gráficos são de sessões por vir, e também de editais sem data se há prazo aberto; a tabela tem todos os alertas.',
    filters: [uf],
    cards: [
      scalar('alertas_criticos', 'Alertas', at(0, 0, 8, 3)),
      scalar('editais_com_risco', 'Editais', at(0, 8, 8, 3)),
      scalar('prazos_abertos', 'Alertas', at(0, 16, 8, 3)),
      {
        key: 'alertas_por_severidade',
        display: 'bar',
        settings: chart(['Severidade', 'Ação'], ['Alertas'], stacked),
        at: at(3, 0, 8, 7),
      },
      {
        key: 'alertas_por_tipo',
        display: 'row',
        settings: chart(['Tipo'], ['Alertas']),
        at: at(3, 8, 8, 7),
      },
      {
        key: 'orgaos_com_alertas',
        display: 'row',
        settings: chart(['Órgão'], ['Alertas']),
        at: at(3, 16, 8, 7),
      },
      {
        key: 'alertas',
        display: 'table',
        settings: {
          ...formats({ Descrição: WRAPPED, 'Tese jurídica': WRAPPED, Objeto: WRAPPED }),
          ...coloured('Severidade', { crítica: RED, alta: YELLOW }),
        },
        at: at(10, 0, 24, 10),
      },
      {
        key: 'risco_pagamento',
        display: 'table',
        settings: formats({ 'Valor em andamento': BRL, 'Valor em disputa': BRL }),
        at: at(20, 0, 24, 7),
      },
    ],
  },
  {
    key: 'decisoes',
    name: 'Decisões',
    description:
      'O trabalho das próximas semanas, o capital que exige, o que bloqueia mais valor, o que se descartou ou perdeu contra o parecer, e quanto custam itens comparáveis.',
    filters: [],
    cards: [
      {
        key: 'carga_da_semana',
        display: 'table',
        settings: formats({ 'Valor das sessões': BRL }),
        at: at(0, 0, 24, 5),
      },
      {
        key: 'carga_por_semana',
        display: 'bar',
        settings: {
          ...chart(['Semana'], ['Vermelhos', 'Amarelos'], { ...stacked, 'graph.x_axis.scale': 'timeseries' }),
          series_settings: { Vermelhos: { color: RED }, Amarelos: { color: YELLOW } },
        },
        at: at(5, 0, 12, 6),
      },
      {
        key: 'mapa_de_prazos',
        display: 'table',
        settings: heat(['Seg', 'Ter', 'Qua', 'Qui', 'Sex', 'Sáb', 'Dom'], RED),
        at: at(5, 12, 12, 6),
      },
      {
        key: 'capital_por_semana',
        display: 'bar',
        settings: {
          ...chart(['Semana'], Object.keys(CAPITAL), { ...stacked, 'graph.x_axis.scale': 'timeseries' }),
          ...formats(Object.fromEntries(Object.keys(CAPITAL).map(name => [name, BRL]))),
          series_settings: Object.fromEntries(
            Object.entries(CAPITAL).map(([name, color]) => [name, { color }]),
          ),
        },
        at: at(11, 0, 12, 7),
      },
      {
        key: 'exposicao_pagamento',
        display: 'table',
        settings: formats({ 'Valor em andamento': BRL, 'Valor em disputa': BRL, 'Valor confirmado': BRL }),
        at: at(11, 12, 12, 7),
      },
      {
        key: 'requisitos_bloqueantes',
        display: 'table',
        settings: formats({ Requisito: WRAPPED, 'Valor bloqueado': BRL, 'Valor só deste': BRL }),
        at: at(18, 0, 24, 8),
      },
      {
        key: 'descartes_recomendados',
        display: 'table',
        settings: formats({ 'Valor total': BRL }),
        at: at(26, 0, 12, 7),
      },
      {
        key: 'perdidas_por_semana',
        display: 'bar',
        settings: chart(['Semana'], ['Participar', 'Cautela'], {
          ...stacked,
          'graph.x_axis.scale': 'timeseries',
        }),
        at: at(26, 12, 12, 7),
      },
      {
        key: 'sessoes_perdidas',
        display: 'table',
        settings: formats({ 'Valor estimado': BRL, Objeto: WRAPPED, PNCP: LINK }),
        at: at(33, 0, 24, 8),
      },
      {
        key: 'mudancas_parecer',
        display: 'table',
        settings: {
          ...formats({ Objeto: WRAPPED, Motivo: WRAPPED }),
          ...coloured('Sentido', { pior: RED }),
        },
        at: at(41, 0, 24, 7),
      },
      {
        key: 'faixas_de_preco',
        display: 'table',
        settings: formats({ Item: WRAPPED, ...Object.fromEntries(SHARES.map(name => [name, BRL])) }),
        at: at(48, 0, 24, 9),
      },
    ],
  },
]
