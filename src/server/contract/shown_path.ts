/** Longer paths are cut, because people read log lines. */
const MAX_LENGTH = 200
/** Text beyond this would never be shown, even if all before it were encoded; searching it would be slow. */
const MAX_READ = 4 * MAX_LENGTH
/** `Bearer`, the key, and the rest. */
const MAX_WORDS = 3
/** A shorter word could occur in any path. */
const MIN_SECRET_LENGTH = 8
/** The visible start of a key made by `npm run keys`; the rest is secret. */
const OWN_KEY = /(edk_[0-9a-z]{1,8})[0-9a-z_-]*/gi
/** Text this long and opaque is another system's key or a token, not a notice id. */
const OPAQUE = /(?<![\w+=~-])([\w+=~-]{6})[\w+=~-]{34,}(?![\w+=~-])/g

/**
 * Returns a path that is safe to log: it may contain a key, or control characters that a terminal would execute.
 * @param secrets credentials that the request sent; they are masked everywhere in the path.
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

/** Returns the scheme and key of a header; a header with more words holds no key. */
function wordsOf(secrets: readonly (string | undefined)[]): string[] {
  return secrets.flatMap(secret =>
    (secret ?? '').split(' ', MAX_WORDS).filter(word => word.length >= MIN_SECRET_LENGTH),
  )
}

/** Decodes each part separately, so that an encoded key is found even if another part cannot be decoded. */
function decoded(path: string): string {
  return path.replaceAll(/(?:%[0-9a-f]{2})+/gi, encoded => {
    try {
      return decodeURIComponent(encoded)
    } catch {
      return encoded
    }
  })
}
