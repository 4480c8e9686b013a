import { BarChart, type BarSeriesOption } from 'echarts/charts'
import { GridComponent, type GridComponentOption } from 'echarts/components'
import { type ComposeOption, init, use } from 'echarts/core'
import { SVGRenderer } from 'echarts/renderers'
import { fitInLine, formatPlural, NONE, number } from '#src/present/text/format.ts'
import { type Html, html, trustMarkup } from '#src/present/text/html.ts'
import type { BySession, Named } from './figures.ts'

use([BarChart, GridComponent, SVGRenderer])

type Option = ComposeOption<BarSeriesOption | GridComponentOption>

/** One of the page's colours: CSS defines its value for light mode, dark mode and print. */
type Colour = 'accent' | 'quiet' | 'red' | 'yellow' | 'green' | 'blue' | 'unknown'

export type Bar = {
  readonly label: string
  readonly value: number
  /** The text at the bar's end. */
  readonly text: string
  readonly colour: Colour
}

type Stack = {
  readonly label: string
  /** One value for each of the chart's layers. */
  readonly values: readonly number[]
}

type Layer = { readonly name: string; readonly colour: Colour }

type Column = {
  readonly label: string
  /** For the narrow drawing, which has room for only some of them. */
  readonly shortLabel: string
  readonly value: number
  readonly colour: Colour
}

/**
 * Every chart is drawn for phones, for half a page or a printed one, and for the whole width of a screen, because text in a
 * drawing grows and shrinks with it. In units of the drawing, roughly pixels.
 */
const WIDTHS = { narrow: 330, wide: 640, full: 1000 } as const
type Size = keyof typeof WIDTHS
const SIZES = ['full', 'wide', 'narrow'] as const satisfies Size[]

const INK = 'var(--ink)'
const MUTED = 'var(--muted)'
const FONT = { narrow: 12, wide: 13, full: 13 } as const
/** Labels up to this width are beside the bars; on a phone, wider ones are above them. */
const MAX_LABEL_WIDTH = { narrow: 90, wide: 200, full: 320 } as const
const MAX_LABEL_CHARACTERS = 60
const GAP = 10
const ROW = { beside: 30, above: 34 } as const
const BAR_WIDTH = { beside: 18, above: 12 } as const
/** Minimum length of a bar, as a share of the longest one: a pixel or two. */
const LEAST_SHARE = 0.004
const COLUMNS = {
  narrow: { width: WIDTHS.narrow, height: 150, font: 9, side: 4 },
  wide: { width: WIDTHS.wide, height: 190, font: 11, side: 4 },
  full: { width: WIDTHS.full, height: 220, font: 11, side: 4 },
} as const

/** Draws horizontal bars, the first one on top. @param summary describes the chart in words. */
export function barChart(summary: string, bars: readonly Bar[]): Html {
  const most = Math.max(...bars.map(({ value }) => value))
  return figure(summary, size => {
    const layout = layOut(
      size,
      bars.map(({ label }) => label),
      bars.map(({ text }) => text),
    )
    return {
      height: layout.height,
      option: {
        ...layout.option,
        series: [
          {
            ...layout.series,
            data: bars.map(({ value, colour }) => ({
              // A small value is still visible; zero has no bar.
              value: value > 0 ? Math.max(value, most * LEAST_SHARE) : 0,
              itemStyle: { color: fill(colour) },
            })),
            itemStyle: { borderRadius: [0, 3, 3, 0] },
            label: {
              show: true,
              position: 'right',
              color: INK,
              fontSize: FONT[size],
              formatter: ({ dataIndex }) => bars[dataIndex]?.text ?? '',
            },
          },
        ],
      },
    }
  })
}

/** Draws horizontal bars of several layers, with numbers in them if they fit, and a legend above. */
export function stackedChart(summary: string, layers: readonly Layer[], stacks: readonly Stack[]): Html {
  const totals = stacks.map(({ values }) => values.reduce((sum, value) => sum + value, 0))
  const most = Math.max(...totals)
  const drawing = figure(summary, size => {
    const layout = layOut(
      size,
      stacks.map(({ label }) => label),
      totals.map(number),
    )
    const fits = (value: number) =>
      value > 0 && (value / most) * layout.longest > estimateWidth(number(value), size) + 4
    return {
      height: layout.height,
      option: {
        ...layout.option,
        series: [
          ...layers.map(({ colour }, layer): BarSeriesOption => {
            const values = stacks.map(({ values }) => values[layer] ?? 0)
            return {
              ...layout.series,
              stack: 'all',
              data: values,
              itemStyle: { color: fill(colour) },
              label: {
                show: true,
                position: 'inside',
                color: `var(--on-${colour})`,
                fontSize: FONT[size] - 1,
                formatter: ({ dataIndex }) => {
                  const value = values[dataIndex] ?? 0
                  return fits(value) ? number(value) : ''
                },
              },
            }
          }),
          // Shows only the total, at the end of the stack.
          {
            ...layout.series,
            stack: 'all',
            data: stacks.map(() => 0),
            label: {
              show: true,
              position: 'right',
              color: MUTED,
              fontSize: FONT[size],
              formatter: ({ dataIndex }) => number(totals[dataIndex] ?? 0),
            },
          },
        ],
      },
    }
  })
  return html`${legend(layers)}${drawing}`
}

/** Draws vertical columns, one per day. Labels may have a second line; empty ones are omitted. */
export function columnChart(summary: string, columns: readonly Column[]): Html {
  const most = Math.max(...columns.map(({ value }) => value))
  return figure(summary, size => {
    const { width, height, font, side } = COLUMNS[size]
    // If the numbers would overlap, only the highest column has one.
    const fits = number(most).length * font * 0.58 <= (width - 2 * side) / columns.length
    return {
      height,
      option: {
        animation: false,
        grid: { left: side, right: side, top: 18, bottom: 34, outerBoundsMode: 'none' },
        xAxis: {
          ...{
            type: 'category',
            axisTick: { show: false },
            axisLine: { lineStyle: { color: 'var(--line)' } },
          },
          data: columns.map(column => (size === 'narrow' ? column.shortLabel : column.label)),
          axisLabel: { interval: 0, color: MUTED, fontSize: font + 1, lineHeight: 14 },
        },
        yAxis: { type: 'value', show: false },
        series: [
          {
            type: 'bar',
            silent: true,
            emphasis: { disabled: true },
            barCategoryGap: '20%',
            data: columns.map(({ value, colour }) => ({ value, itemStyle: { color: fill(colour) } })),
            itemStyle: { borderRadius: [2, 2, 0, 0] },
            label: {
              show: true,
              position: 'top',
              color: INK,
              fontSize: font,
              distance: 3,
              formatter: ({ dataIndex }) => {
                const value = columns[dataIndex]?.value ?? 0
                return value > 0 && (fits || value === most) ? number(value) : ''
              },
            },
          },
        ],
      },
    }
  })
}

/** Lays out a horizontal bar chart: the grid, axes and bars, with room for the texts at the bars' ends. */
function layOut(size: Size, labels: readonly string[], texts: readonly string[]) {
  const names = labels.map(text => fitInLine(text, MAX_LABEL_CHARACTERS) ?? '')
  const nameWidth = Math.max(...names.map(name => estimateWidth(name, size)))
  const beside = size !== 'narrow' || nameWidth <= MAX_LABEL_WIDTH.narrow
  const room = Math.min(nameWidth, MAX_LABEL_WIDTH[size])
  const left = beside ? room + GAP : 1
  const right = Math.max(...texts.map(text => estimateWidth(text, size))) + GAP
  const place = beside ? 'beside' : 'above'
  const option: Option = {
    animation: false,
    grid: { left, right, top: beside ? 0 : 8, bottom: 0, outerBoundsMode: 'none' },
    xAxis: { type: 'value', show: false, min: 0 },
    yAxis: {
      ...{
        type: 'category',
        inverse: true,
        data: names,
        axisTick: { show: false },
        axisLine: { show: false },
      },
      axisLabel: {
        interval: 0,
        color: INK,
        fontSize: FONT[size],
        overflow: 'truncate',
        hideOverlap: false,
        ...(beside
          ? { margin: GAP, ...(nameWidth > room && { width: room }) }
          : {
              inside: true,
              margin: 0,
              width: WIDTHS[size] - GAP,
              verticalAlign: 'bottom',
              padding: [0, 0, BAR_WIDTH.above / 2 + 3, 0],
            }),
      },
    },
  }
  const series = {
    type: 'bar',
    silent: true,
    emphasis: { disabled: true },
    barWidth: BAR_WIDTH[place],
  } as const
  const longest = WIDTHS[size] - left - right
  return { height: names.length * ROW[place] + 4, option, series, longest }
}

/** Returns the approximate width of a text; fonts differ. */
function estimateWidth(text: string, size: Size): number {
  const capitals = text.replaceAll(/[^\p{Lu}]/gu, '').length
  return (text.length * 0.58 + capitals * 0.14) * FONT[size]
}

function fill(colour: Colour): string {
  return `var(--fill-${colour})`
}

function legend(layers: readonly Layer[]): Html {
  return html`<ul class="legend">${layers.map(
    ({ name, colour }) => html`<li><span class="swatch ${colour}"></span>${name}</li>`,
  )}</ul>`
}

type Drawing = { readonly height: number; readonly option: Option }

function figure(summary: string, drawing: (size: Size) => Drawing): Html {
  const drawings = SIZES.map(size => html`<div class="${size}">${draw(size, drawing(size))}</div>`)
  return html`<div class="chart" role="img" aria-label="${summary}">${drawings}</div>`
}

function draw(size: Size, { height, option }: Drawing): Html {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: WIDTHS[size], height })
  try {
    chart.setOption(option)
    return trustMarkup(stillMarkup(chart.renderToSVGString()))
  } finally {
    chart.dispose()
  }
}

/**
 * Removes what ECharts adds for scripts, including ids that count all charts of the process. Text in the drawing is
 * escaped, so it cannot look like an attribute.
 */
function stillMarkup(svg: string): string {
  return (
    svg
      .replace(
        /^<svg width="[^"]*" height="[^"]*" (?:(?!viewBox)[^<>])*(viewBox="[^"]*")>/,
        '<svg $1 aria-hidden="true">',
      )
      .replace(/<rect [^<>]*fill="none"><\/rect>/, '')
      .replaceAll(/<style ?>(?:<!\[CDATA\[)?[^<]*<\/style>/g, '')
      .replaceAll(/ (ecmeta_\w+|class|xml:space)="[^"]*"/g, '')
      // The page sets the fonts.
      .replaceAll(/ style="(?:(?!font-size:)[^"])*(font-size:[^;"]*)(?:;[^"]*)?"/g, ' style="$1"')
      .replaceAll(/\n+/g, '')
  )
}

/** The parts that several sections of the report share. */

/** The contents of a cell; null for an empty one. */
type Cell = Html | string | null

export type TableColumn<T> = {
  readonly head: string
  readonly kind?: 'number' | 'date' | 'wide'
  readonly cell: (row: T) => Cell
}

type Options<T> = {
  readonly caption: string
  readonly columns: readonly TableColumn<T>[]
  readonly rows: readonly T[]
}

/** Numbers only: texts need more room. */
const MAX_COLUMNS_ON_A_PHONE = 3
/** Rows that a phone shows at first, as cards; report.css has it, too. */
const ROWS_ON_A_PHONE = 3

/**
 * Returns a table whose first column names the row. On a phone each row becomes a card, so each cell has a label, and three
 * are shown until the reader asks for all. The roles keep it a table for screen readers: some browsers drop the table
 * semantics if CSS changes the layout.
 */
export function table<T>({ caption, columns, rows }: Options<T>): Html {
  // Everything else becomes cards on a phone.
  const small =
    columns.length <= MAX_COLUMNS_ON_A_PHONE && columns.slice(1).every(({ kind }) => kind === 'number')
  // Rows of numbers are less tall in print.
  const numeric = columns.slice(1).every(({ kind }) => kind === 'number')
  // Long texts need the full width even on a tablet.
  const listed = columns.slice(1).some(({ kind }) => kind === 'wide')
  const head = columns.map(
    ({ kind, head }) => html`<th role="columnheader" scope="col"${makeClass(kind)}>${head}</th>`,
  )
  const body = rows.map(row => {
    const cells = columns.map(({ kind, head, cell }, index) => {
      const content = cell(row) ?? NONE
      if (index === 0) return html`<th role="rowheader" scope="row"${makeClass(kind)}>${content}</th>`
      const className = makeClass(content === NONE ? [kind, 'none'].filter(Boolean).join(' ') : kind)
      return html`<td role="cell"${className} data-label="${head}"><div>${content}</div></td>`
    })
    return html`<tr role="row">${cells}</tr>\n`
  })
  // It may scroll sideways, and has no link by which the keyboard could do that.
  const reachable = !small && !listed && html` tabindex="0" role="region" aria-label="${caption}"`
  const all =
    !small &&
    rows.length > ROWS_ON_A_PHONE &&
    html`<label class="all"><input type="checkbox"> Mostrar todas as linhas</label>`
  return html`<div class="table${small ? ' small' : ' cards'}${numeric && ' numeric'}${listed && ' listed'}"${reachable}><table role="table"><caption>${caption}</caption>
<thead role="rowgroup"><tr role="row">${head}</tr></thead>
<tbody role="rowgroup">
${body}</tbody></table>${all}</div>`
}

function makeClass(name: string | undefined): Html | null {
  return name ? html` class="${name}"` : null
}

/** Returns a line with the number of rows that a list omits; null if it omits none. */
export function more(count: number, one: string, many: string, where = ''): Html | null {
  return count > 0
    ? html`<p class="more">… e mais ${formatPlural(count, one, many)}${where && ` ${where}`}.</p>`
    : null
}

/** Maximum characters of texts of notices. */
export const MAX_NAME = 80
export const MAX_OBJECT = 120
/** The certainty of a day that is the earlier one of several. */
export const TO_CONFIRM = 'a confirmar'
export const MAX_CODE = 30
/** One stack per category of the contract; the table below the chart has the others. */
export const MAX_STACKS = 12

/** Shows buyer, state and number of a notice, and whether it was published again, as a link if it has a usable address. */
export function noticeLink({ address, ...named }: Named): Html {
  const [name, ...rest] = nameParts(named)
  return html`${address ? html`<a href="${address}" rel="noopener noreferrer">${name}</a>` : name}${rest.map(part => ` · ${part}`).join('')}`
}

/** Names a notice by buyer, state and number, as plain text. */
export function formatNoticeName(named: Omit<Named, 'address'>): string {
  return nameParts(named).join(' · ')
}

function nameParts({ orgao, uf, numero, republicado }: Omit<Named, 'address'>): string[] {
  const rest = [fitInLine(uf, MAX_CODE), fitInLine(numero, MAX_CODE), republicado].filter(
    part => part !== null,
  )
  return [fitInLine(orgao, MAX_NAME) ?? 'Órgão não informado', ...rest]
}

/** Formats the counts of sessions: `12 com sessão futura, 3 passadas, 1 sem data`. */
export function formatSessionCounts({
  futuras,
  passadas,
  sem_data,
}: Pick<BySession, 'futuras' | 'passadas' | 'sem_data'>): string {
  return `${number(futuras)} com sessão futura, ${formatPlural(passadas, 'passada', 'passadas')}, ${number(sem_data)} sem data`
}

export function badge(colour: string | undefined, text: string): Html {
  return html`<span class="badge ${colour ?? 'plain'}">${text}</span>`
}

export function numbers(content: Html): Html {
  return html`<details><summary>Ver os números</summary>${content}</details>`
}

export function nothing(text: string): Html {
  return html`<p class="nothing">${text}</p>`
}

export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
