import { z } from 'zod'

/**
 * Reads an http or https address as its origin and path, without slashes at its end. One with a user, a key, a query or a
 * fragment is refused, so what is read can be shown.
 * @param message what it must be.
 */
export function serverAddress(message: string) {
  return z.string().transform((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : null
    if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash)
      return `${url.origin}${url.pathname.replace(/(?<!\/)\/+$/, '')}`
    context.addIssue({ code: 'custom', message })
    return z.NEVER
  })
}

/** Reads parts that are separated by commas. @param message what they must be. */
export function commaList(isValid: (part: string) => boolean, message: string) {
  return z
    .string()
    .transform(text => text.split(',').map(part => part.trim()))
    .refine(parts => parts.every(isValid), message)
}
