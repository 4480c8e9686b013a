/** How cards of Metabase look: tables that fit, charts with room for names, one compact form of money. */

export type CardSpec = {
  /** Identifies the card's file, and the card in Metabase permanently: another key is another card. */
  readonly key: string
  readonly display: 'scalar' | 'table' | 'funnel' | 'bar' | 'row'
  /** Metabase's visualization settings; keys and values are those of its frontend. */
  readonly settings: Readonly<Record<string, unknown>>
  readonly at: Place
}

/** In cells of a grid 24 cells wide. */
type Place = { readonly row: number; readonly col: number; readonly width: number; readonly height: number }

type Format = Readonly<Record<string, unknown>>
type Colours = Readonly<Record<string, string>>

const BRL: Format = { number_style: 'currency', currency: 'BRL', currency_style: 'symbol' }
/** For charts: millions would make small amounts nothing. */
export const REAIS: Format = { ...BRL, decimals: 0 }
/** For tiles, in one form: Metabase's own would be "R$8,5B". */
export const MILLIONS: Format = {
  number_style: 'decimal',
  scale: 1e-6,
  decimals: 1,
  prefix: 'R$ ',
  suffix: ' mi',
}
const LINK: Format = { view_as: 'link', link_text: 'abrir' }
const WRAPPED: Format = { text_wrapping: true }

/** The width of a cell of the grid in a window 1,280 pixels wide, and what a card's border and scrollbar take of it. */
export const CELL_PX = 43.6
export const BORDER_PX = 12

/** Names in one text. */
const names = (text: string) => text.split(' | ')

/** Columns of a usual width, in pixels. A number of things is as wide as its heading. */
const WIDTHS = widths([
  [60, 'UF'],
  [64, 'Dias | Seg | Ter | Qua | Qui | Sex | Sáb | Dom'],
  [76, 'PNCP'],
  [94, 'Desde | Até | Dia | Prazo | Semana | Visto em | Cor | Análise | Sentido | Há (dias) | Certeza'],
  [108, 'Sessão em | Parte | Fase | Severidade | Confirmada | Número'],
  [122, 'Impugnar até | Dia da semana | Ação | Precificação | Parecer'],
  [134, 'Unidade | Sessão | De | Para | Mudança | Publicado em | Última execução | Próxima sessão'],
  [154, 'Risco de pagamento | Relatório do órgão | Última execução boa'],
])
const MONEY = widths([
  [120, 'Valor'],
  [124, '10% até | 90% até'],
  [140, 'Metade até'],
  [146, 'Valor mediano | Valor total | Valor RP | Itens RP'],
  [154, 'Valor estimado | Valor só deste'],
  [176, 'Valor bloqueado | Valor confirmado | Valor das sessões | Valor em andamento'],
  [176, 'Valor em disputa | Itens selecionados | Itens sem valor do edital'],
])
/** Texts of any length share what is left, by these weights, and are wrapped. */
const SHARES = widths([
  [8, 'Categoria | Modalidade | Feriado'],
  [9, 'Órgão | Edital | Alerta | Requisito | Requisito ou alerta'],
  [11, 'Órgãos | Objeto | Decisão | Exigido | Situação atual | Descrição | Motivo | Item'],
])

function widths(all: readonly (readonly [number, string])[]): ReadonlyMap<string, number> {
  return new Map(all.flatMap(([width, text]) => names(text).map(name => [name, width] as const)))
}

function fixedWidth(name: string): number | null {
  if (SHARES.has(name)) return null
  return WIDTHS.get(name) ?? MONEY.get(name) ?? 46 + Math.ceil(6.2 * name.length)
}

/** Metabase identifies a column of a native question by this JSON. */
function formats(those: readonly (readonly [name: string, format: Format])[]) {
  return {
    column_settings: Object.fromEntries(
      those.map(([name, format]) => [JSON.stringify(['name', name]), format]),
    ),
  }
}

function findFormat(name: string): Format | null {
  if (MONEY.has(name)) return BRL
  if (SHARES.has(name)) return WRAPPED
  return name === 'PNCP' ? LINK : null
}

/**
 * Makes a table that fits its card.
 * @param columns those that are shown, in their order, separated by ` | `.
 * @param more `hidden`: the other columns of its query, which a person can switch on; and settings of Metabase.
 */
export function tableCard(
  key: string,
  at: Place,
  columns: string,
  { hidden, ...more }: { readonly hidden?: string; readonly [setting: string]: unknown } = {},
): CardSpec {
  const shown = names(columns)
  const all = [...shown, ...(hidden ? names(hidden) : [])]
  const sum = (width: (name: string) => number | null | undefined) =>
    shown.reduce((total, name) => total + (width(name) ?? 0), 0)
  const left = Math.floor(at.width * CELL_PX) - BORDER_PX - sum(fixedWidth)
  const share = left / sum(name => SHARES.get(name))
  return {
    key,
    display: 'table',
    settings: {
      ...formats(all.flatMap(name => [[name, findFormat(name)] as const]).filter(hasFormat)),
      'table.columns': all.map((name, index) => ({ name, enabled: index < shown.length })),
      'table.column_widths': shown.map(
        name => fixedWidth(name) ?? Math.floor(share * (SHARES.get(name) ?? 0)),
      ),
      ...more,
    },
    at,
  }
}

function hasFormat(pair: readonly [string, Format | null]): pair is readonly [string, Format] {
  return pair[1] !== null
}

/**
 * Makes a chart: bars for weeks; rows for categories, so that their names have room.
 * @param columns what it groups by, then the numbers, separated by ` | `.
 */
export function chartCard(
  key: string,
  at: Place,
  [dimensions, metrics]: readonly [string, string],
  { format, colours, isStacked }: { format?: Format; colours?: Colours; isStacked?: true } = {},
): CardSpec {
  const isTime = dimensions === 'Semana'
  return {
    key,
    display: isTime ? 'bar' : 'row',
    settings: {
      'graph.dimensions': names(dimensions),
      'graph.metrics': names(metrics),
      'graph.show_values': true,
      'graph.x_axis.labels_enabled': false,
      'graph.y_axis.labels_enabled': false,
      'graph.label_value_formatting': 'full',
      ...(isTime && { 'graph.x_axis.scale': 'timeseries' }),
      // The axis of values, which rows have below, would have fractions. Bars have their counts, but not the parts of a stacked row.
      ...(!format && (isTime || !isStacked) && { 'graph.y_axis.axis_enabled': false }),
      // Metabase leaves out values by default: some, and those of parts. Money is too wide for each bar.
      ...(isTime && !format && { 'graph.label_value_frequency': 'all' }),
      ...(isStacked && { 'stackable.stack_type': 'stacked' }),
      ...(isTime && isStacked && !format && { 'graph.show_stack_values': 'all' }),
      ...(format && formats(names(metrics).map(name => [name, format] as const))),
      ...(colours && {
        series_settings: Object.fromEntries(
          Object.entries(colours).map(([name, color]) => [name, { color }]),
        ),
      }),
    },
    at,
  }
}

export function scalarCard(key: string, field: string, at: Place, format?: Format): CardSpec {
  return {
    key,
    display: 'scalar',
    settings: { 'scalar.field': field, ...(format && formats([[field, format]])) },
    at,
  }
}

/** Colours the cells of a column whose text is exactly this value. */
export const coloured = (name: string, colours: Colours) => ({
  'table.column_formatting': Object.entries(colours).map(([value, color]) => ({
    columns: [name],
    type: 'single',
    operator: '=',
    value,
    color,
    highlight_row: false,
  })),
})

/** Colours the cells of columns from white to `color`, by their largest number. */
export const heat = (columns: string, color: string) => ({
  'table.column_formatting': [
    {
      columns: names(columns),
      type: 'range',
      colors: ['#FFFFFF', color],
      min_type: 'custom',
      min_value: 0,
      max_type: 'all',
    },
  ],
})

export const at = (row: number, col: number, width: number, height: number): Place => ({
  row,
  col,
  width,
  height,
})
