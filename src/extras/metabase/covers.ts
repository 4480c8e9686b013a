/**
 * Returns whether `actual` contains everything in `wanted`. Metabase adds properties and defaults to what it was given, and
 * uses null for absent values.
 */
export function covers(actual: unknown, wanted: unknown): boolean {
  if (wanted === null || wanted === undefined) return actual === null || actual === undefined
  if (Array.isArray(wanted)) {
    return (
      Array.isArray(actual) &&
      actual.length === wanted.length &&
      wanted.every((value, position) => covers(actual[position], value))
    )
  }
  if (typeof wanted === 'object') {
    return (
      typeof actual === 'object' &&
      actual !== null &&
      Object.entries(wanted).every(([name, value]) =>
        covers((actual as Record<string, unknown>)[name], value),
      )
    )
  }
  return actual === wanted
}
