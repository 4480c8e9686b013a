/** Longer ones are cut: a log line is for people. */
const MAX_LENGTH = 200
/** What `npm run keys` makes; the rest of it is secret. */
const OWN_KEY = /(edk_[0-9a-z]{1,8})[0-9a-z_-]*/gi
/** So long and so opaque is a key of somebody else's or a token, not the id of a notice. */
const OPAQUE = /(?<![\w+=~-])([\w+=~-]{6})[\w+=~-]{34,}(?![\w+=~-])/g

/**
 * A path as it may stand in a log: somebody may have put a key into it, or what a terminal would obey.
 * @param secrets what the request presented; it is masked wherever it stands.
 */
export function shownPath(path: string, secrets: readonly (string | undefined)[] = []): string {
  let shown = decoded(path)
  for (const secret of secrets) {
    const words = (secret ?? '').split(/\s+/).filter(word => word.length >= 8)
    for (const word of words) shown = shown.replaceAll(word, '…')
  }
  return shown
    .replaceAll(OWN_KEY, '$1…')
    .replaceAll(OPAQUE, '$1…')
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '\ufffd')
    .slice(0, MAX_LENGTH)
}

/** A key that is percent-encoded is a key. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}
