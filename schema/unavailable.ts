/**
 * The mirror's `error` values, with 503, for a notice whose analysis it does not have. The server itself works, and
 * other analyses can be requested at once.
 */
export const UNAVAILABLE = {
  /** Not yet, or not at the moment: a later run may fetch it. */
  now: 'analysis_not_available',
  /** Not with the current settings (`ANALYSIS_STATUSES`). */
  excluded: 'analysis_excluded',
} as const
