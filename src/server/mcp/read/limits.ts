/** Maximum length of a client's SQL, in characters: parsing takes time and memory that nothing else bounds. */
export const MAX_SQL_LENGTH = 20_000
/** After that, the process that reads is killed: for a client's SQL, and for our own, whose cost is known. */
export const WITHIN_MS = { foreign: 5000, ours: 15_000 }
