/** What a search can be sorted by. */
export const SORTS = ['session', 'value', 'created', 'updated', 'relevance'] as const
export type SortKey = (typeof SORTS)[number]
