/** One reading with an engine; `wrong` has lines for the terminal. */
export type Result = { readonly title: string; readonly wrong: readonly string[] }

/** Python prints a trace before the error, and DuckDB the place in the SQL after it. */
export function reasonOf(stderr: string): string {
  const lines = stderr.trim().split('\n')
  return lines.find(line => /^\S*(Error|Exception)/.test(line)) ?? lines.at(-1) ?? ''
}
