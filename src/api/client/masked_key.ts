import type { HttpReply } from '#src/platform/http/client.ts'

/** A shorter key, as on a test server, could be a word in the documents. Real keys are far longer. */
const MIN_MASKED_KEY = 16

type Mask = (bytes: Buffer) => void

/**
 * Overwrites a key wherever a server repeats it, in an error or anywhere else: the answers are the only place where
 * it could enter files, logs and messages (invariant I7). With as many characters, so that a body keeps its length.
 */
export function keyMask(key: string): Mask {
  const secrets = spellings(key)
  return bytes => {
    for (const secret of secrets) {
      for (let at = bytes.indexOf(secret); at !== -1; at = bytes.indexOf(secret, at)) {
        bytes.fill('*', at, at + secret.length)
      }
    }
  }
}

/** Returns the reply with the key masked in the values of the headers. */
export function withMaskedHeaders(reply: HttpReply, mask: Mask): HttpReply {
  const masked = (value: string) => {
    const bytes = Buffer.from(value)
    mask(bytes)
    return bytes.toString()
  }
  const headers = Object.entries(reply.headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.map(masked) : value && masked(value),
  ])
  return { ...reply, headers: Object.fromEntries(headers) }
}

/**
 * Returns the key as a server may repeat it: as sent, in a URL, or in JSON as the encoders of PHP and .NET write it. Usually
 * they are all equal. Empty for a key so short that it could be a word in the documents.
 */
function spellings(key: string): readonly string[] {
  if (key.length < MIN_MASKED_KEY) return []
  const json = JSON.stringify(key).slice(1, -1)
  const escaped = json.replaceAll(
    /[+&<>'`]/g,
    character => `\\u${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`,
  )
  const all = [key, encodeURIComponent(key), json, json.replaceAll('/', '\\/'), escaped]
  // Longest first, because it may contain a shorter one.
  return [...new Set(all)].sort((a, b) => b.length - a.length)
}
