import { z } from 'zod'

/** Creates a query parameter that is a whole number. */
export function wholeParameter({ min, max, usual }: { min: number; max: number; usual: number }) {
  const message = `must be a whole number from ${min} to ${max}`
  return z
    .string()
    .regex(/^\d{1,9}$/, message)
    .meta({ type: 'integer', minimum: min, maximum: max, pattern: undefined })
    .transform(Number)
    .refine(number => number >= min && number <= max, message)
    .prefault(String(usual))
}
