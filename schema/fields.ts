/**
 * An id that is safe as one segment of a URL's path: no separators, escapes, quotes, white space, and neither `.`
 * nor `..`. The contract has no maximum length; ours keeps URLs valid.
 */
const PLAIN_PATH_SEGMENT = /^(?!\.{1,2}$)[A-Za-z0-9._~:@+=-]{1,200}$/

/** Returns true for an id that may be put into `/editais/{id}`. */
export function isPlainPathSegment(id: string): boolean {
  return PLAIN_PATH_SEGMENT.test(id)
}
