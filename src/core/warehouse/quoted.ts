/** Returns an SQL string literal, for places that accept no parameter (paths, comments). */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/** Returns an SQL identifier. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
