/** One result of checking a company's directory. */
export type Finding = {
  /** The name of the check: one word for all findings of a kind. */
  readonly check: string
  /** A warning needs no action: nothing is wrong yet, or the next run fixes it. */
  readonly status: 'ok' | 'warning' | 'problem'
  /** Path of the file or directory that it is about. */
  readonly subject: string
  /** Completes a sentence that begins with the subject's name; if `ok`, a sentence of its own. */
  readonly what: string
  /** The remedy, with the command; null if there is nothing to do. */
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

/** Returns all findings, with `well` in front unless there is a problem among them. */
export function orWell(findings: readonly Finding[], well: Finding): Finding[] {
  return findings.some(({ status }) => status === 'problem') ? [...findings] : [well, ...findings]
}
