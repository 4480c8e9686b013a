import { BORDER_PX, type CardSpec, CELL_PX } from '#config/metabase/card_forms.ts'
import type { QueryResult } from '#src/core/warehouse/database.ts'

/** What does not fit a card in Metabase, measured on its pages in a window 1,280 pixels wide. */

/** A row of the grid, less the gap to the next card; a table's title, heading and footer; a line of text, and the space around it. */
const GRID_ROW_PX = 45
const GAP_PX = 8
const AROUND_TABLE_PX = 106
const LINE_PX = 17
const AROUND_LINES_PX = 19
const AROUND_CELL_PX = 26
const AROUND_HEADING_PX = 40
/** The menu and the margins beside a title. */
const AROUND_TITLE_PX = 80
/** A bar of a row chart, and what is around the bars. */
const BAR_PX = 24
const AROUND_BARS_PX = 90
/** A name of a legend has a dot before it, and a gap to the next; what is around them, and the least width of a chart that has one. */
const DOT_PX = 20
const LEGEND_GAP_PX = 12
const AROUND_LEGEND_PX = 32
const LEAST_LEGEND_PX = 420
/** As many rows of a table are seen without scrolling; all of a shorter one. */
const ROWS_SEEN = 6

type Column = { readonly name: string; readonly enabled: boolean }

/** @returns each misfit as a sentence. */
export function misfitsOf(card: CardSpec, title: string, result: QueryResult): string[] {
  const width = card.at.width * CELL_PX
  const found = pixels(title) > width - AROUND_TITLE_PX ? [`the title "${title}" is cut`] : []
  if (card.display === 'table') return [...found, ...tableMisfits(card, result)]
  const isRow = card.display === 'row' || card.display === 'funnel'
  return [...found, ...legendMisfits(card, result), ...(isRow ? rowMisfits(card, result) : [])]
}

function tableMisfits({ at, settings }: CardSpec, { columns, rows }: QueryResult): string[] {
  const all = settings['table.columns'] as readonly Column[]
  const widths = settings['table.column_widths'] as readonly number[]
  const shown = all.filter(({ enabled }) => enabled).map(({ name }) => name)
  const formatOf = (name: string) => columnSettings(settings)[JSON.stringify(['name', name])] ?? {}
  const lines = rows.map(row => {
    const counts = shown.map((name, index) =>
      formatOf(name).text_wrapping ? linesIn(textOf(row[name]), (widths[index] ?? 0) - AROUND_CELL_PX) : 1,
    )
    return Math.max(...counts)
  })
  const needed = lines.slice(0, ROWS_SEEN).reduce((sum, count) => sum + count * LINE_PX + AROUND_LINES_PX, 0)
  const height = at.height * GRID_ROW_PX - GAP_PX - AROUND_TABLE_PX
  const total = widths.reduce((sum, width) => sum + width, 0)
  return [
    ...(all
      .map(({ name }) => name)
      .sort()
      .join() === [...columns].sort().join()
      ? []
      : ['its columns are others']),
    ...(total > at.width * CELL_PX - BORDER_PX ? [`its columns take ${total} px`] : []),
    ...(needed > height ? [`its first rows need ${needed} of ${height} px`] : []),
    ...shown.flatMap((name, index) => {
      const { text_wrapping, link_text, number_style } = formatOf(name) as Record<string, string>
      const isMoney = number_style === 'currency'
      const heading = pixels(isMoney ? `${name} (R$)` : name) + AROUND_HEADING_PX
      const texts = rows.map(row => link_text ?? textOf(row[name], isMoney))
      // A longer word than any in the language, such as an address, is broken.
      const parts = text_wrapping
        ? texts.flatMap(text => text.split(/[ -]/)).filter(word => word.length < 20)
        : texts
      const widest = parts.reduce((widest, text) => (pixels(text) > pixels(widest) ? text : widest), '')
      const has = widths[index] ?? 0
      return [
        ...(heading > has ? [`the heading "${name}" needs ${Math.ceil(heading)} of ${has} px`] : []),
        ...(pixels(widest) + AROUND_CELL_PX > has
          ? [`"${widest}" in "${name}" needs ${Math.ceil(pixels(widest) + AROUND_CELL_PX)} of ${has} px`]
          : []),
      ]
    }),
  ]
}

/** Metabase gives names half of a chart, and cuts the first letter of a longer one. */
function rowMisfits({ at, settings }: CardSpec, { rows }: QueryResult): string[] {
  const [name = ''] = (settings['graph.dimensions'] ?? [settings['funnel.dimension']]) as readonly string[]
  const names = new Set(rows.map(row => textOf(row[name])))
  const series = settings['stackable.stack_type'] ? 1 : ((settings['graph.metrics'] ?? []) as string[]).length
  const bars = { size: names.size * series }
  const room = (at.width * CELL_PX) / 2 - AROUND_CELL_PX
  const height = at.height * GRID_ROW_PX - GAP_PX - AROUND_BARS_PX
  return [
    ...[...names].filter(text => pixels(text) > room).map(text => `the name "${text}" is cut`),
    ...(bars.size * BAR_PX > height ? [`${bars.size} bars need ${bars.size * BAR_PX} of ${height} px`] : []),
  ]
}

/** A legend that does not fit above its chart is cut, or not shown. */
function legendMisfits({ at, settings }: CardSpec, { rows }: QueryResult): string[] {
  const [, second] = (settings['graph.dimensions'] ?? []) as readonly string[]
  const metrics = (settings['graph.metrics'] ?? []) as readonly string[]
  const coloured = Object.keys((settings.series_settings ?? {}) as object)
  const names =
    second === undefined ? metrics : [...new Set([...coloured, ...rows.map(row => textOf(row[second]))])]
  if (names.length < 2) return []
  const width = at.width * CELL_PX
  const needed =
    names.reduce((sum, name) => sum + pixels(name) + DOT_PX, AROUND_LEGEND_PX) +
    LEGEND_GAP_PX * (names.length - 1)
  return needed > width || width < LEAST_LEGEND_PX
    ? [
        `the legend "${names.join(', ')}" needs ${Math.ceil(Math.max(needed, LEAST_LEGEND_PX))} of ${width} px`,
      ]
    : []
}

function columnSettings(settings: CardSpec['settings']) {
  return (settings.column_settings ?? {}) as Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/** A cell as Metabase writes it, in Brazil. */
function textOf(value: unknown, isMoney = false): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Date) {
    const [day = '', time = ''] = value.toISOString().split(/[T.]/)
    return `${day.split('-').reverse().join('/')}${time === '00:00:00' ? '' : `, ${time.slice(0, 5)}`}`
  }
  if (typeof value !== 'number') return String(value)
  return value.toLocaleString('pt-BR', { minimumFractionDigits: isMoney ? 2 : 0, maximumFractionDigits: 2 })
}

/** How many lines a text takes, word by word. */
function linesIn(text: string, width: number): number {
  let lines = 1
  let used = 0
  for (const word of text.split(' ')) {
    const size = pixels(`${word} `)
    if (used > 0 && used + size > width) {
      lines += 1
      used = 0
    }
    used += size
  }
  return lines
}

/** In the bold letters of tables. */
function pixels(text: string): number {
  const wide = text.match(/[\p{Lu}mw@%]/gu)?.length ?? 0
  const narrow = text.match(/[ilj.,:;'/() |]/g)?.length ?? 0
  return wide * 7.7 + narrow * 3.4 + (text.length - wide - narrow) * 6.4
}
