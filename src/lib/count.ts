/** Formats a count: `1,234`. */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}

/** Formats a count with its noun: `1 notice`, `1,234 notices`; `many` if the plural is irregular. */
export function pluralize(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`
}

export function formatSeconds(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`
}
