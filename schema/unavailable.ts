/**
 * What the mirror says in `error`, beside 503, of a notice whose analysis it does not have: the server is well, and
 * others can be asked for at once.
 */
export const UNAVAILABLE = {
  /** Not yet, or not at the moment: a later run may find it. */
  now: 'analysis_not_available',
  /** Not as long as its settings stay so (`ANALYSIS_STATUSES`). */
  excluded: 'analysis_excluded',
} as const
