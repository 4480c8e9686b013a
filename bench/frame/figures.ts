/** A limit for a figure: `most` must not be exceeded, `least` must be reached. */
export type Bar = { readonly kind: 'most' | 'least'; readonly limit: number }

/** @param applies whether the bar is stated for what is measured, such as a company of this size. */
export function most(limit: number, applies = true): Bar | null {
  return applies ? { kind: 'most', limit } : null
}

export function least(limit: number, applies = true): Bar | null {
  return applies ? { kind: 'least', limit } : null
}

/** A number that a situation measures. */
export type Figure = {
  readonly key: string
  readonly label: string
  /** Decimals that are shown. */
  readonly digits: number
  /** One for each round; none if it does not apply. */
  readonly values: readonly number[]
  readonly bar: Bar | null
  /** The table that it is in, and its column there; null for those of the first table that has a line for each figure. */
  readonly table: string | null
  readonly column: string | null
}

/** @param value null if it does not apply. */
export function figure(
  key: string,
  label: string,
  digits: number,
  value: number | null,
  bar: Bar | null = null,
): Figure {
  return { key, label, digits, values: value === null ? [] : [value], bar, table: null, column: null }
}

/** Shows figures side by side in a row of a table of their own: each label is a column. */
export function asRow(table: string, row: string, figures: readonly Figure[]): Figure[] {
  return figures.map(each => ({
    ...each,
    key: `${row}_${each.key}`,
    label: row,
    table,
    column: each.label,
  }))
}

/** Shows figures in a column of the first table, so that they are compared with those of another column. */
export function asColumn(column: string, figures: readonly Figure[]): Figure[] {
  return figures.map(each => (each.table === null ? { ...each, column } : each))
}

/** Puts the values of several rounds together. */
export function merged(rounds: readonly (readonly Figure[])[]): Figure[] {
  const byKey = Map.groupBy(rounds.flat(), ({ key, table, column }) => JSON.stringify([key, table, column]))
  return [...byKey.values()].map(same => ({
    ...(same[0] as Figure),
    values: same.flatMap(({ values }) => values),
  }))
}

/** The median of a figure that must be there. */
export function medianOf(figures: readonly Figure[], key: string): number {
  const found = figures.find(each => each.key === key && each.values.length > 0)
  if (!found) throw new Error(`no figure named ${key}`)
  return median(found.values)
}

/** A bar and whether it was met. */
export type Verdict = Bar & { readonly what: string; readonly value: number; readonly met: boolean }

/** Judges the figures that have a bar and a value, by the median of the rounds. */
export function judge(figures: readonly Figure[]): Verdict[] {
  return figures.flatMap(each => {
    const { bar, values } = each
    if (bar === null || values.length === 0) return []
    const value = median(values)
    const met = bar.kind === 'most' ? value <= bar.limit : value >= bar.limit
    return [{ what: nameOf(each), value, ...bar, met }]
  })
}

function nameOf({ label, table, column }: Figure): string {
  if (table !== null) return `${table}, ${label}: ${column}`
  return column === null ? label.trim() : `${column}, ${label.trim()}`
}

/** Expects at least one value. For an even number, the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] as number
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2
}

/** The value that this share of the values does not exceed. Expects at least one value. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] as number
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

export function megabytes(bytes: number): number {
  return bytes / 1e6
}

export function round(value: number, digits: number): number {
  return Number(value.toFixed(digits))
}
