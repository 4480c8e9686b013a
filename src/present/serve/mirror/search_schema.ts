import { RECOMMENDATIONS } from '#schema/analysis.ts'
import { STATUSES } from '#schema/notice.ts'
import { documentSchemas } from '#schema/openapi.ts'

const { properties } = documentSchemas().Edital as { properties: Readonly<Record<string, object>> }

/** Times in other forms than the usual one are as they were sent, often without an offset. */
const fields = Object.entries(properties).map(([name, property]) => [
  name,
  'format' in property && property.format === 'date-time' ? { ...property, format: undefined } : property,
])

/** A notice as a search answers it; with `fields`, any of these may be missing. */
const FOUND_NOTICE = {
  type: 'object',
  properties: {
    ...Object.fromEntries(fields),
    status: { type: 'string', enum: STATUSES },
    verdict: {
      type: 'object',
      required: ['recommendation'],
      properties: { recommendation: { type: 'string', enum: RECOMMENDATIONS } },
      description: 'Of the current analysis; absent without one.',
    },
  },
}

export const SEARCH_PAGE = {
  type: 'object',
  required: ['editais', 'count', 'total', 'next', 'snapshot'],
  properties: {
    editais: { type: 'array', items: FOUND_NOTICE },
    count: { type: 'integer', description: 'How many notices this page has.' },
    total: { type: 'integer', description: 'How many notices match.' },
    next: { type: ['string', 'null'], description: '`cursor` of the next page; null on the last one.' },
    snapshot: { type: 'string', description: 'The snapshot that the page is of.' },
  },
}
