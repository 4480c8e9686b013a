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

const MODES = { all: 0o755, group: 0o750, none: 0o700 } as const

/** Reads who may read the lake, in which only the worker writes: `group` keeps its group, `group:bi` gives it another one. */
const readers = z.string().transform((text, context): LakeSettings => {
  if (text === 'all' || text === 'group' || text === 'none') return { mode: MODES[text], group: null }
  const named = /^group:(.+)$/.exec(text)?.[1]
  const group = named && (/^\d{1,10}$/.test(named) ? Number(named) : groupNamed(named))
  if (typeof group === 'number' && group <= MAX_GROUP_ID) return { mode: MODES.group, group }
  const problem = typeof group === 'number' ? 'is not a valid group id' : group
  const message = problem || 'must be all, none, group, or group: and a name, as in group:bi'
  context.addIssue({ code: 'custom', message })
  return z.NEVER
})

/** The readers of the lake. */
export const lakeShape = { LAKE_READERS: readers.optional() }

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
