/** Quotes a path for a shell, for commands that users copy; ordinary paths stay unquoted. */
export function quoteForShell(path: string): string {
  return /^[\p{L}\p{N}_/.,:@%+=-]+$/u.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
}
