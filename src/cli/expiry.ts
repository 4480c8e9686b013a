import { z } from 'zod'
import { durationSetting } from '#config/settings.ts'
import { EXIT, FatalError } from '#src/platform/errors.ts'

/** Maximum lifetime of a key: a longer one should have no expiry at all. */
const MAX_MS = 100 * 366 * 86_400_000

const day = z.iso.date()
const instant = z.iso.datetime({ offset: true })

/**
 * Returns when a key expires: after a duration such as 90d, at the end of a day in UTC, or at an instant.
 * @throws FatalError (usage) unless it is one of these and in the future.
 */
export function parseExpiry(text: string, now: Date): Date {
  const expiresAt = expiryOf(text, now)
  if (expiresAt === null)
    throw new FatalError(
      `--expires ${text || '""'}: must be a duration such as 90d, a day such as 2027-06-30, or an instant with its offset such as 2027-06-30T18:00:00-03:00.`,
      EXIT.usage,
    )
  if (!(expiresAt.getTime() > now.getTime()))
    throw new FatalError(
      `--expires ${text}: must be in the future, not ${expiresAt.toISOString()}.`,
      EXIT.usage,
    )
  return expiresAt
}

/**
 * Returns how long a replaced key still works beside its successor, in milliseconds.
 * @throws FatalError (usage) unless it is a duration.
 */
export function parseOverlap(text: string): number {
  const parsed = durationSetting.safeParse(text)
  if (parsed.success && parsed.data <= MAX_MS) return parsed.data
  throw new FatalError(
    `--overlap ${text || '""'}: must be a duration such as 24h or 7d; 0s refuses the old key at once.`,
    EXIT.usage,
  )
}

function expiryOf(text: string, now: Date): Date | null {
  const parsed = durationSetting.safeParse(text)
  if (parsed.success) return parsed.data <= MAX_MS ? new Date(now.getTime() + parsed.data) : null
  if (day.safeParse(text).success) return new Date(`${text}T23:59:59.999Z`)
  return instant.safeParse(text).success ? new Date(text) : null
}
