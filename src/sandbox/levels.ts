import type { ANALYSIS_LEVELS } from '#schema/analysis.ts'

export type Level = (typeof ANALYSIS_LEVELS)[number]

const DEPTH: Readonly<Record<Level, number>> = { none: 0, simple: 1, medium: 2, deep: 3 }

/** Returns true if an evaluation at the first level includes the results of the second. */
export function reaches(level: Level, needed: Level): boolean {
  return DEPTH[level] >= DEPTH[needed]
}

/** Returns the next deeper level, or null for the deepest. */
export function deeper(level: Level): Level | null {
  return ({ none: 'simple', simple: 'medium', medium: 'deep', deep: null } as const)[level]
}

/**
 * Describes how an analysis violates the rules of its level (docs/contract.md#phases-and-levels); empty if it does not.
 * `analyzed` is false if the level is `none`, and true for every other level; no verdict or overview before `simple`;
 * no pricing, requirements or items before `medium`.
 */
export function levelViolations(analysis: Readonly<Record<string, unknown>>): string[] {
  const level = analysis.analysis_level as Level
  if (!(level in DEPTH)) return [`unknown level ${String(analysis.analysis_level)}`]
  const violations: string[] = []
  if (analysis.analyzed !== (level !== 'none')) violations.push(`analyzed is ${String(analysis.analyzed)}`)
  if (!reaches(level, 'simple')) {
    if (analysis.overview !== undefined) violations.push('overview before simple')
    if (Object.keys((analysis.verdict ?? {}) as object).length > 0) violations.push('verdict before simple')
  }
  if (!reaches(level, 'medium')) {
    if ((analysis.pricing ?? null) !== null) violations.push('pricing before medium')
    for (const section of ['requirements', 'items'] as const) {
      if ((analysis[section] as unknown[]).length > 0) violations.push(`${section} before medium`)
    }
  }
  return violations
}
