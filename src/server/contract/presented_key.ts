type PresentedKey = {
  readonly authorization: string | undefined
  readonly xApiKey: string | undefined
}

/**
 * Returns the key that a request sends, or null. The contract requires exactly one header (docs/contract.md#authentication). Both
 * headers with the same key are accepted; different keys are refused, as is any scheme but Bearer.
 */
export function presentedKey({ authorization, xApiKey }: PresentedKey): string | null {
  const bearer = authorization === undefined ? undefined : /^Bearer +(\S+) *$/iu.exec(authorization)?.[1]
  if (authorization !== undefined && bearer === undefined) return null
  if (bearer !== undefined && xApiKey !== undefined && bearer !== xApiKey) return null
  return bearer ?? xApiKey ?? null
}
