/** A path as a shell reads it, for commands that somebody will copy; usual ones stay as they are. */
export function quoted(path: string): string {
  return /^[\p{L}\p{N}_/.,:@%+=-]+$/u.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
}
