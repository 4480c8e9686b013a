import { UNAVAILABLE } from '#schema/analysis.ts'
import { errorBodies } from './contract/examples.ts'
import type { Extras } from './contract/openapi.ts'

type Header = { readonly description: string; readonly required?: true; readonly schema: object }

const REQUEST_ID: Header = {
  description: "The request's own `X-Request-Id`, or a generated one. The log has it as well.",
  schema: { type: 'string', pattern: '^[A-Za-z0-9_.:-]{1,64}$', examples: ['erp-42'] },
}
const CACHE_CONTROL: Header = {
  description: 'Only the client itself may store the answer, and must revalidate it each time.',
  schema: { type: 'string', const: 'private, no-cache' },
}
const VARY: Header = {
  description: 'The request headers that the answer depends on.',
  // With `Origin` if SERVE_CORS_ORIGINS names origins.
  schema: { type: 'string', pattern: '^Authorization, X-API-Key, Accept-Encoding(?:, Origin)?$' },
}
const ETAG: Header = {
  description: 'Identifies this version of the answer, for `If-None-Match`.',
  schema: { type: 'string', pattern: '^W/"[A-Za-z0-9_-]+"$', examples: ['W/"lZWwk6-qIcE1N1jy"'] },
}
const DATA_AS_OF: Header = {
  description: 'When the snapshot behind this answer was published.',
  schema: { type: 'string', format: 'date-time', examples: ['2026-07-29T04:10:46.943Z'] },
}
const CONTENT_ENCODING: Header = {
  description: 'How the body is compressed, if the request accepts it and the body is not small.',
  schema: { type: 'string', enum: ['gzip', 'br'] },
}
const RETRY_AFTER: Header = {
  description: 'Seconds to wait.',
  schema: { type: 'integer', minimum: 1, examples: [1] },
}

const always = (header: Header): Header => ({ ...header, required: true })
/** Headers of every answer of a route; a malformed request reaches no route. */
const OF_ROUTES = {
  'X-Request-Id': always(REQUEST_ID),
  'Cache-Control': always(CACHE_CONTROL),
  Vary: always(VARY),
}
const PERHAPS_OF_ROUTES = { 'X-Request-Id': REQUEST_ID, 'Cache-Control': CACHE_CONTROL, Vary: VARY }
const OF_A_SNAPSHOT = { ...OF_ROUTES, ETag: always(ETAG), 'X-Data-As-Of': always(DATA_AS_OF) }

/** The additions of the mirror to the contract. */
export const MIRROR_EXTRAS: Extras = {
  localSessions: true,
  about: `
This server answers from the latest snapshot of the company's notices:

- Times with an offset are in UTC; others are as the original API sent them. Fields that were absent or null there are absent here.
- If an analysis has not been fetched since its notice changed, the answer is 503, not 404; other analyses are still
  served. \`error\` tells whether the analysis may come with the next sync (\`${UNAVAILABLE.now}\`), or belongs to a phase
  whose analyses are not fetched (\`${UNAVAILABLE.excluded}\`).
- The request rate of keys is limited only if \`SERVE_MAX_RPS\` is set.
- Web pages may call it from a browser only from the origins in \`SERVE_CORS_ORIGINS\`. Their preflight requests get 204.
`,
  parameters: [
    {
      name: 'If-None-Match',
      in: 'header',
      description:
        'ETags of answers that the client has, separated by commas; or `*`. The answer is 304 if one of them is current.',
      schema: { type: 'string' },
      examples: {
        tag: { summary: 'The ETag of an earlier answer', value: 'W/"lZWwk6-qIcE1N1jy"' },
        any: { summary: 'Any version', value: '*' },
      },
    },
    {
      name: 'X-Request-Id',
      in: 'header',
      description:
        'Identifies the request in the answer and the log. It may have 1 to 64 letters, digits, `_`, `.`, `:` and `-`; others are ignored.',
      schema: { type: 'string' },
      examples: { own: { summary: "The client's own id", value: 'erp-42' } },
    },
  ],
  responses: {
    '304': { description: 'The answer still matches `If-None-Match`. No body.' },
    '429': {
      description: 'This key sent too many requests, or this address sent too many wrong keys.',
      content: errorBodies({
        limited: { error: 'too_many_requests', detail: 'This key may send 5 requests per second.' },
      }),
    },
    '503': {
      description: 'There is no snapshot of this company yet, or this analysis has not been fetched yet.',
      content: errorBodies({
        noSnapshot: {
          error: 'unavailable',
          detail: 'There is no snapshot of this company yet. Try again after its first sync.',
        },
        notFetched: {
          error: UNAVAILABLE.now,
          detail: 'The analysis of this notice has not been fetched yet. Try again after the next sync.',
        },
      }),
    },
  },
  headers: {
    '200': { ...OF_A_SNAPSHOT, 'Content-Encoding': CONTENT_ENCODING },
    '304': OF_A_SNAPSHOT,
    '400': PERHAPS_OF_ROUTES,
    '401': OF_ROUTES,
    '404': { ...OF_ROUTES, 'X-Data-As-Of': DATA_AS_OF },
    '405': OF_ROUTES,
    '414': OF_ROUTES,
    '429': { ...OF_ROUTES, 'Retry-After': always(RETRY_AFTER) },
    '500': PERHAPS_OF_ROUTES,
    '503': { ...OF_ROUTES, 'Retry-After': RETRY_AFTER, 'X-Data-As-Of': DATA_AS_OF },
  },
}
