/** What one look at a company's directory showed. */
export type Finding = {
  /** What was looked at, the same word for every finding of one kind. */
  readonly check: string
  /** A warning needs nobody: nothing is wrong yet, or the next run mends it. */
  readonly status: 'ok' | 'warning' | 'problem'
  /** Path of the file or directory that it is about. */
  readonly subject: string
  /** What goes on after the subject's name; where all is well, a sentence of its own. */
  readonly what: string
  /** What to do, with the command; null where there is nothing to do. */
  readonly mend: string | null
}

export function ok(check: string, subject: string, what: string): Finding {
  return { check, status: 'ok', subject, what, mend: null }
}

export function warning(check: string, subject: string, what: string, mend: string | null = null): Finding {
  return { check, status: 'warning', subject, what, mend }
}

export function problem(check: string, subject: string, what: string, mend: string): Finding {
  return { check, status: 'problem', subject, what, mend }
}

/** All that was found; that all is well only where nothing else was. */
export function orWell(findings: readonly Finding[], well: Finding): Finding[] {
  return findings.some(({ status }) => status === 'problem') ? [...findings] : [well, ...findings]
}
