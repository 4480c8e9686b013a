import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { messageOf, systemCode } from '#src/platform/errors.ts'

/** Where the system names its groups. */
const GROUPS = '/etc/group'
const MAX_GROUP_ID = 4_294_967_294

export type LakeSettings = {
  /** Of its directories; null leaves it as it is: 0755 less the umask for a new one. */
  readonly mode: number | null
  /** Id of the group that it belongs to; null leaves it as it is. */
  readonly group: number | null
}

/** Nobody but the worker ever writes there, so there are three. */
const mode = z
  .string()
  .regex(/^0?7(00|50|55)$/, 'must be 0755 (every user reads), 0750 (its group reads) or 0700 (nobody else)')
  .transform(text => Number.parseInt(text, 8))

const group = z.string().transform((text, context) => {
  const id = /^\d{1,10}$/.test(text) ? Number(text) : groupNamed(text)
  if (typeof id === 'number' && id <= MAX_GROUP_ID) return id
  const message = typeof id === 'string' ? id : 'is no id of a group'
  context.addIssue({ code: 'custom', message })
  return z.NEVER
})

/** Who may read what BI reads. */
export const lakeShape = { LAKE_MODE: mode.optional(), LAKE_GROUP: group.optional() }

export function lakeSettings(values: z.output<z.ZodObject<typeof lakeShape>>): LakeSettings {
  return { mode: values.LAKE_MODE ?? null, group: values.LAKE_GROUP ?? null }
}

/** The group's id, or what is wrong. */
function groupNamed(name: string): number | string {
  try {
    const lines = readFileSync(GROUPS, 'utf8').split('\n')
    const entry = lines.map(line => line.split(':')).find(([known]) => known === name)
    if (entry?.[2]) return Number(entry[2])
    return `is no group in ${GROUPS}; a group that is defined elsewhere is given by its number`
  } catch (error) {
    return `cannot be looked up: ${GROUPS} cannot be read (${systemCode(error) ?? messageOf(error)}); give the group's number`
  }
}
