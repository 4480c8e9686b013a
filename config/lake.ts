import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { messageOf, systemCode } from '#src/lib/errors.ts'

/** The system's list of its groups. */
const GROUPS = '/etc/group'
const MAX_GROUP_ID = 4_294_967_294

export type LakeSettings = {
  /** Mode of its directories; null leaves them unchanged: a new one gets 0755 less the umask. */
  readonly mode: number | null
  /** Id of the group that owns it; null leaves it unchanged. */
  readonly group: number | null
}

/** Only the worker writes there, so only these three modes make sense. */
const mode = z
  .string()
  .regex(
    /^0?7(00|50|55)$/,
    'must be 0755 (all users can read), 0750 (only its group) or 0700 (only its owner)',
  )
  .transform(text => Number.parseInt(text, 8))

const group = z.string().transform((text, context) => {
  const id = /^\d{1,10}$/.test(text) ? Number(text) : groupNamed(text)
  if (typeof id === 'number' && id <= MAX_GROUP_ID) return id
  const message = typeof id === 'string' ? id : 'is not a valid group id'
  context.addIssue({ code: 'custom', message })
  return z.NEVER
})

/** The readers of the lake. */
export const lakeShape = { LAKE_MODE: mode.optional(), LAKE_GROUP: group.optional() }

export function lakeSettings(values: z.output<z.ZodObject<typeof lakeShape>>): LakeSettings {
  return { mode: values.LAKE_MODE ?? null, group: values.LAKE_GROUP ?? null }
}

/** Returns the group's id, or what is wrong. */
function groupNamed(name: string): number | string {
  try {
    const lines = readFileSync(GROUPS, 'utf8').split('\n')
    const entry = lines.map(line => line.split(':')).find(([known]) => known === name)
    if (entry?.[2]) return Number(entry[2])
    return `is not a group in ${GROUPS}. If the group is defined elsewhere, use its number`
  } catch (error) {
    return `cannot be looked up: ${GROUPS} cannot be read (${systemCode(error) ?? messageOf(error)}). Use the group's number`
  }
}
