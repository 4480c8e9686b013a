/** The orders of a search. */
export const SORTS = ['session', 'value', 'created', 'updated', 'relevance'] as const
export type SortKey = (typeof SORTS)[number]
