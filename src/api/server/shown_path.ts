/** Longer ones are cut: a log line is for people. */
const MAX_LENGTH = 200
/** Nothing of the rest would be shown, even if all before it were encoded; to search it would take long. */
const MAX_READ = 4 * MAX_LENGTH
/** `Bearer`, the key, and what is no key. */
const MAX_WORDS = 3
/** A shorter word could be one of any path. */
const MIN_SECRET_LENGTH = 8
/** What `npm run keys` makes; the rest of it is secret. */
const OWN_KEY = /(edk_[0-9a-z]{1,8})[0-9a-z_-]*/gi
/** So long and so opaque is a key of somebody else's or a token, not the id of a notice. */
const OPAQUE = /(?<![\w+=~-])([\w+=~-]{6})[\w+=~-]{34,}(?![\w+=~-])/g

/**
 * A path as it may stand in a log: somebody may have put a key into it, or what a terminal would obey.
 * @param secrets what the request presented; it is masked wherever it stands.
 */
export function shownPath(path: string, secrets: readonly (string | undefined)[] = []): string {
  let shown = decoded(path.slice(0, MAX_READ))
  for (const word of wordsOf(secrets)) shown = shown.replaceAll(word, '…')
  return shown
    .replaceAll(OWN_KEY, '$1…')
    .replaceAll(OPAQUE, '$1…')
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '\ufffd')
    .slice(0, MAX_LENGTH)
}

/** The scheme and the key of a header; a header with more words holds no key. */
function wordsOf(secrets: readonly (string | undefined)[]): string[] {
  return secrets.flatMap(secret =>
    (secret ?? '').split(' ', MAX_WORDS).filter(word => word.length >= MIN_SECRET_LENGTH),
  )
}

/** A key that is percent-encoded is a key, also if something else in the path cannot be decoded. */
function decoded(path: string): string {
  return path.replaceAll(/(?:%[0-9a-f]{2})+/gi, encoded => {
    try {
      return decodeURIComponent(encoded)
    } catch {
      return encoded
    }
  })
}
