import { readFile } from 'node:fs/promises'
import { LIST_LIMIT, STATUSES } from '#schema/notice.ts'
import { documentSchemas } from '#schema/openapi.ts'
import { BODIES, EXAMPLES } from './examples.ts'

// biome-ignore lint/suspicious/noExplicitAny: a JSON document
type Node = Record<string, any>

/** The additions of one server to the contract, besides those of all servers (`COMMON_ABOUT` and others). */
export type Extras = {
  /** Further paragraphs of the description, in Markdown. */
  readonly about: string
  /** Parameters that each operation also takes. */
  readonly parameters: readonly object[]
  /** Further answers of each operation, by status. */
  readonly responses: Readonly<Record<string, object>>
  /** Headers of answers, by status; ignored for an operation without such an answer. */
  readonly headers: Readonly<Record<string, Readonly<Record<string, object>>>>
  /** Whether sessions may be local times, without an offset, as in real notices. */
  readonly localSessions: boolean
}

/** Describes the contract in OpenAPI 3.1: `schema/openapi.yaml`, with the fields of the documents. */
export async function describeContract(): Promise<Node> {
  // Loaded for the first reader of the description.
  const { parse } = await import('yaml')
  const text = await readFile(new URL('../../../schema/openapi.yaml', import.meta.url), 'utf8')
  const contract = parse(text) as Node
  const { schemas } = contract.components
  for (const [name, schema] of Object.entries(documentSchemas())) Object.assign(schemas[name], schema)
  return contract
}

/** Describes this server in OpenAPI 3.1: the contract, plus the server's behaviour where the contract is silent. */
export async function describeServer(extras: Extras): Promise<object> {
  const { info, components, paths, ...rest } = await describeContract()
  const { responses, ...kept } = components
  for (const { get: operation } of Object.values(paths) as Node[]) {
    operation.parameters = [...operation.parameters, ...extras.parameters].map(withExtras)
    operation.responses = listAnswers(operation, responses, extras)
  }
  for (const [name, parameter] of Object.entries<Node>(kept.parameters)) {
    kept.parameters[name] = withExtras(parameter)
  }
  describeSchemas(kept.schemas, extras)
  return {
    ...rest,
    info: { ...info, description: [info.description, COMMON_ABOUT, extras.about].join('\n').trim() },
    servers: [{ url: '/' }],
    paths,
    components: { ...kept, examples: EXAMPLES },
  }
}

function withExtras(parameter: Node): Node {
  return { ...parameter, ...PARAMETERS[parameter.name] }
}

/** Returns all answers of an operation, inlined: the contract's shared ones have different headers on each server. */
function listAnswers({ operationId, responses }: Node, shared: Node, extras: Extras): Node {
  const own = Object.entries<Node>(responses).map(([status, response]) => {
    const name = response.$ref?.split('/').at(-1)
    return [status, name ? shared[name] : response]
  })
  const all: Record<string, Node> = { ...COMMON_RESPONSES, ...extras.responses }
  for (const [status, response] of own) {
    const description = [response.description.trim(), all[status]?.description].filter(Boolean).join(' ')
    all[status] = { ...all[status], ...response, description }
  }
  if (all['200']) all['200'].links = LINKS[operationId]
  for (const [status, response] of Object.entries(all)) {
    const headers = { ...response.headers, ...COMMON_HEADERS[status], ...extras.headers[status] }
    const content = BODIES[operationId]?.[status] ?? BODIES.any?.[status] ?? response.content
    all[status] = {
      ...response,
      ...(Object.keys(headers).length > 0 && { headers }),
      ...(content && { content }),
    }
  }
  return all
}

function describeSchemas(schemas: Node, { localSessions }: Extras): void {
  schemas.Error.properties.detail = ERROR_DETAIL
  schemas.Edital.examples = [EXAMPLES.Edital.value]
  schemas.EditalAnalysis.examples = [EXAMPLES.EditalAnalysis.value]
  schemas.EditalPage.examples = [EXAMPLES.EditalPage.value]
  if (!localSessions) return
  for (const { properties } of [schemas.Edital, schemas.EditalAnalysis]) {
    // A time without an offset does not match the format `date-time`.
    properties.data_sessao = {
      type: 'string',
      description:
        'Date of the public session. Without an offset it is local time; the time of day may be missing.',
    }
  }
}

/*
 * What sandbox, `editais serve` and daemon all do where the contract is silent; see `createApiRoutes` in `routes.ts`
 * and `src/lib/http/`.
 */

const COMMON_ABOUT = `
Where the contract is silent, this server decides:

- \`HEAD\` is answered as \`GET\`, without the body. Any other method gets 405.
- The key is checked first: without a valid one, every request under \`/api/v1/editais\` gets 401.
- Both key headers may be sent with the same key. With different keys, the request gets 401.
- Query parameters that are not described here are ignored.
- Errors are objects with \`error\`, a code for programs, and sometimes \`detail\`, a sentence for people.
`

const STATUS = `(?:${STATUSES.join('|')})`

/** The values that each parameter of the contract accepts here, by name. */
const PARAMETERS: Readonly<Record<string, object>> = {
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
      sandbox: { summary: 'A notice of the sandbox (editais sandbox)', value: EXAMPLES.Edital.value.id },
    },
  },
}

const ERROR_DETAIL = {
  type: 'string',
  description: 'What happened and what to do, in a sentence for people. The wording may change.',
}

/** Reads that may follow a successful one, by operation. */
const LINKS: Readonly<Record<string, object>> = {
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
const COMMON_RESPONSES: Readonly<Record<string, { readonly description: string }>> = {
  '400': { description: 'A malformed request line or `Host` header.' },
  '405': { description: 'The method is neither `GET` nor `HEAD`.' },
  '408': { description: 'The request was not sent in time. The connection is closed.' },
  '414': { description: 'The path and query are longer than 4,096 characters.' },
  '431': { description: 'The headers are larger than 16 kB. The connection is closed.' },
  '500': { description: 'The body is an Error object that does not give the reason.' },
}

const COMMON_HEADERS: Readonly<Record<string, Readonly<Record<string, object>>>> = {
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
