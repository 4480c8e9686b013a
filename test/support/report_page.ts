/** The report as its reader sees it. */

/** The visible text: without markup, entities decoded, white space collapsed. */
export function textOf(markup: string): string {
  const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }
  return markup
    .replaceAll(/<(style|svg)\b.*?<\/\1>/gs, ' ')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/&(\w+|#39);/g, (entity, name: string) => entities[name] ?? entity)
    .replaceAll(/\s+/g, ' ')
    .trim()
}

/** The text of each row of the table with this caption, including the header row. */
export function rowsOf(page: string, caption: string): string[] {
  const [, rest = ''] = page.split(`<caption>${caption}`)
  const [body = ''] = rest.split('</table>')
  return [...body.matchAll(/<tr\b.*?<\/tr>/gs)].map(([row]) => textOf(row))
}

/** The values of the tiles at the top, by name. */
export function tilesOf(page: string): Record<string, string> {
  const tiles = page.matchAll(/<dt>([^<]*)<\/dt><dd>([^<]*?) <small>/g)
  return Object.fromEntries([...tiles].map(([, name, value]) => [name, value?.replaceAll(/\s/g, ' ')]))
}

/** All blocks of text: sentences, captions, rows, tiles, and labels of charts; that of a table repeats its caption. */
const BLOCKS =
  /<(p|h[1-3]|caption|tr|li|a)\b.*?<\/\1>|<div[^>]*><dt>.*?<\/div>|(?<!role="region" )aria-label="[^"]*"/gs

/**
 * The blocks of a part of the page that contain a figure, and all rows of its tables, from top to bottom; cells are
 * separated by ` | `. Text outside of blocks is added at the end, so that no figure is missed.
 */
export function figuresOf(part: string): string[] {
  const markup = part.replaceAll(/<svg\b.*?<\/svg>/gs, '')
  const blocks = [...markup.matchAll(BLOCKS)].map(([block]) => ({ block, text: blockText(block) }))
  const rest = textOf(markup.replaceAll(BLOCKS, ' '))
  return [...blocks, { block: '', text: rest }]
    .filter(({ block, text }) => block.startsWith('<tr') || /\d/.test(text))
    .map(({ text }) => text)
}

function blockText(marked: string): string {
  // Markup within a sentence does not separate words.
  const block = marked.replaceAll(/<\/?(b|small|span|a|code)\b[^>]*>/g, '')
  const [, label] = /^aria-label="([^"]*)"$/.exec(block) ?? []
  if (label !== undefined) return textOf(label)
  const cells = [...block.matchAll(/<(t[hd]|dt|dd)\b.*?<\/\1>/gs)].map(([cell]) => textOf(cell))
  return cells.length > 0 ? cells.join(' | ') : textOf(block)
}

/** The markup of each part: `topo`, each section by its id, and `fim`, the text below the last section. */
export function partsOf(page: string): Record<string, string> {
  const [, body = ''] = page.split('<body>')
  const sections = [...body.matchAll(/<section id="(\w+)".*?<\/section>/gs)]
  const [first, last] = [sections[0], sections.at(-1)]
  return {
    topo: body.slice(0, first?.index),
    ...Object.fromEntries(sections.map(([markup, id]) => [id, markup])),
    fim: body.slice((last?.index ?? 0) + (last?.[0].length ?? 0)),
  }
}

/** The texts in each wide drawing of a part. */
export function writtenIn(part: string): string[][] {
  return drawingsOf(part).map(svg => [...svg.matchAll(/<text\b.*?<\/text>/gs)].map(([text]) => textOf(text)))
}

/**
 * The lengths of the bars of a part's first wide drawing, by the colour of their layer and from the top down, as
 * shares of the sum of all bars.
 */
export function barsOf(part: string): Record<string, number[]> {
  const [svg = ''] = drawingsOf(part)
  const bars = [...svg.matchAll(/<path d="M\S+ \S+?l([\d.]+) 0l[^"]*" fill="var\(--fill-(\w+)\)"/g)]
  const lengths = Map.groupBy(bars, ([, , colour]) => colour ?? '')
  const total = bars.reduce((sum, [, length]) => sum + Number(length), 0)
  return Object.fromEntries(
    [...lengths].map(([colour, those]) => [colour, those.map(([, length]) => Number(length) / total)]),
  )
}

/** The lengths of the bars below the values of a part's table, in percent. */
export function sharesOf(part: string): number[] {
  return [...part.matchAll(/style="width:(\d+)%"/g)].map(([, percent]) => Number(percent))
}

function drawingsOf(part: string): string[] {
  return [...part.matchAll(/<div class="wide">(<svg\b.*?<\/svg>)/gs)].map(([, svg]) => svg ?? '')
}
