import { UNAVAILABLE } from '#schema/unavailable.ts'
import { errorBodies } from '#src/api/server/examples.ts'
import type { Extras } from '#src/api/server/openapi.ts'

type Header = { readonly description: string; readonly required?: true; readonly schema: object }

const REQUEST_ID: Header = {
  description: "The request's own `X-Request-Id`, or one that was made up; it is in the log.",
  schema: { type: 'string', pattern: '^[A-Za-z0-9_.:-]{1,64}$', examples: ['erp-42'] },
}
const CACHE_CONTROL: Header = {
  description: 'Only the client itself may store the answer, and asks each time whether it is still so.',
  schema: { type: 'string', const: 'private, no-cache' },
}
const VARY: Header = {
  description: 'The request headers that the answer depends on.',
  // With `Origin` if SERVE_CORS_ORIGINS names origins.
  schema: { type: 'string', pattern: '^Authorization, X-API-Key, Accept-Encoding(?:, Origin)?$' },
}
const ETAG: Header = {
  description: 'Names this version of the answer, for `If-None-Match`.',
  schema: { type: 'string', pattern: '^W/"[A-Za-z0-9_-]+"$', examples: ['W/"lZWwk6-qIcE1N1jy"'] },
}
const DATA_AS_OF: Header = {
  description: 'When the snapshot was published that this was answered from.',
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
/** Of every answer of a route; what could not be read as a request reaches none. */
const OF_ROUTES = {
  'X-Request-Id': always(REQUEST_ID),
  'Cache-Control': always(CACHE_CONTROL),
  Vary: always(VARY),
}
const PERHAPS_OF_ROUTES = { 'X-Request-Id': REQUEST_ID, 'Cache-Control': CACHE_CONTROL, Vary: VARY }
const OF_A_SNAPSHOT = { ...OF_ROUTES, ETag: always(ETAG), 'X-Data-As-Of': always(DATA_AS_OF) }

/** What the mirror answers beside what the contract says. */
export const MIRROR_EXTRAS: Extras = {
  localSessions: true,
  about: `
It answers from the latest snapshot of the company's notices:

- Times with an offset are in UTC; others are as the original sent them. Fields that it left out or gave as null are left out.
- An analysis that has not been fetched since its notice changed is answered with 503, not with 404. Others are answered
  meanwhile: \`error\` says whether it may come with the next sync (\`${UNAVAILABLE.now}\`), or is of a phase whose analyses
  are not fetched (\`${UNAVAILABLE.excluded}\`).
- Keys are limited to so many requests a second only if \`SERVE_MAX_RPS\` is set.
- Browsers let pages of other sites ask only from the origins in \`SERVE_CORS_ORIGINS\`; their preflight requests get 204.
`,
  parameters: [
    {
      name: 'If-None-Match',
      in: 'header',
      description:
        'ETags of answers that the client has, with commas between them; or `*`. 304 if one of them is current.',
      schema: { type: 'string' },
      examples: {
        tag: { summary: 'The ETag of an earlier answer', value: 'W/"lZWwk6-qIcE1N1jy"' },
        any: { summary: 'Whatever the client has', value: '*' },
      },
    },
    {
      name: 'X-Request-Id',
      in: 'header',
      description:
        'Names the request in answer and log. Used if it has 1 to 64 letters, digits, `_`, `.`, `:` and `-`; else ignored.',
      schema: { type: 'string' },
      examples: { own: { summary: 'Of the client', value: 'erp-42' } },
    },
  ],
  responses: {
    '304': { description: 'The answer is still one that `If-None-Match` names. No body.' },
    '429': {
      description: 'This key asked more often than it may, or this address presented too many wrong keys.',
      content: errorBodies({
        limited: { error: 'too_many_requests', detail: 'This key may ask 5 times a second.' },
      }),
    },
    '503': {
      description: 'There is no snapshot of this company yet, or this analysis has not been fetched yet.',
      content: errorBodies({
        noSnapshot: {
          error: 'unavailable',
          detail: 'There is no snapshot of this company yet. Ask again after its first sync.',
        },
        notFetched: {
          error: UNAVAILABLE.now,
          detail: 'The analysis of this notice was not fetched yet. Ask again after the next sync.',
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
