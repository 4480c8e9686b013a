import { LIST_LIMIT, STATUSES } from '#schema/notice.ts'
import { EXAMPLES } from './examples.ts'

/*
 * What sandbox, `npm run serve` and daemon all do where the contract is silent; see `createApiRoutes` in `routes.ts`
 * and `src/lib/http/`.
 */

export const COMMON_ABOUT = `
Where the contract is silent, this server decides:

- \`HEAD\` is answered as \`GET\`, without the body. Any other method gets 405.
- The key is checked first: without a valid one, every request under \`/api/v1/editais\` gets 401.
- Both key headers may be sent with the same key. With different keys, the request gets 401.
- Query parameters that are not described here are ignored.
- Errors are objects with \`error\`, a code for programs, and sometimes \`detail\`, a sentence for people.
`

const STATUS = `(?:${STATUSES.join('|')})`

/** The values that each parameter of the contract accepts here, by name. */
export const PARAMETERS: Readonly<Record<string, object>> = {
  status: {
    description: `Comma-separated list of status values (shape \`<status>,<status>\`). The first unknown status is named in a 400.
When omitted, notices of every status are included. Spaces around a status and empty elements are ignored; an empty list
counts as omitted. If the parameter is repeated, the lists are joined.`,
    schema: {
      type: 'string',
      pattern: `^ *(?:${STATUS} *)?(?:, *(?:${STATUS} *)?)*$`,
    },
    examples: {
      one: { summary: 'Notices in screening', value: 'screening' },
      two: { summary: 'Notices in pricing or ready', value: 'pricing,ready' },
    },
  },
  limit: {
    description: `Page size, ${LIST_LIMIT.min} to ${LIST_LIMIT.max}. A number outside that range is replaced by the nearest bound. Anything that is not an
integer counts as omitted. The page's \`limit\` is the one that was applied. If the parameter is repeated, the first one counts.`,
    schema: { type: ['integer', 'string'], default: LIST_LIMIT.default },
    examples: {
      default: { summary: 'As if omitted', value: LIST_LIMIT.default },
      largest: { summary: 'The fewest requests for all notices', value: LIST_LIMIT.max },
    },
  },
  offset: {
    description: `Paging offset, 0 or more. A negative number counts as 0. Anything that is not an integer counts as omitted. Beyond
\`total\` the page is empty. The page's \`offset\` is the one that was applied. If the parameter is repeated, the first one counts.`,
    schema: { type: ['integer', 'string'], default: 0 },
    examples: {
      first: { summary: 'The first page', value: 0 },
      second: { summary: 'The second page of 50', value: 50 },
    },
  },
  id: {
    schema: { type: 'string', minLength: 1 },
    examples: {
      sandbox: { summary: 'A notice of the sandbox (npm run sandbox)', value: EXAMPLES.Edital.value.id },
    },
  },
}

export const ERROR_DETAIL = {
  type: 'string',
  description: 'What happened and what to do, in a sentence for people. The wording may change.',
}

/** Reads that may follow a successful one, by operation. */
export const LINKS: Readonly<Record<string, object>> = {
  listEditais: {
    notice: { operationId: 'getEdital', parameters: { id: '$response.body#/editais/0/id' } },
    analysis: { operationId: 'getEditalAnalysis', parameters: { id: '$response.body#/editais/0/id' } },
  },
  getEdital: {
    analysis: { operationId: 'getEditalAnalysis', parameters: { id: '$response.body#/id' } },
  },
  getEditalAnalysis: {
    notice: { operationId: 'getEdital', parameters: { id: '$response.body#/id' } },
  },
}

/** Their bodies are in `examples.ts`. */
export const COMMON_RESPONSES: Readonly<Record<string, { readonly description: string }>> = {
  '400': { description: 'A malformed request line or `Host` header.' },
  '405': { description: 'The method is neither `GET` nor `HEAD`.' },
  '408': { description: 'The request was not sent in time. The connection is closed.' },
  '414': { description: 'The path and query are longer than 4,096 characters.' },
  '431': { description: 'The headers are larger than 16 kB. The connection is closed.' },
  '500': { description: 'The body is an Error object that does not give the reason.' },
}

export const COMMON_HEADERS: Readonly<Record<string, Readonly<Record<string, object>>>> = {
  '401': {
    'WWW-Authenticate': {
      description: 'The scheme to use. `X-API-Key` also works.',
      required: true,
      schema: { type: 'string', const: 'Bearer' },
    },
  },
  '405': {
    Allow: {
      description: 'The supported methods.',
      required: true,
      schema: { type: 'string', const: 'GET, HEAD' },
    },
  },
}
