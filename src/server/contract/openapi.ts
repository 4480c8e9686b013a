import { readFile } from 'node:fs/promises'
import { documentSchemas } from '#schema/openapi.ts'
import {
  COMMON_ABOUT,
  COMMON_HEADERS,
  COMMON_RESPONSES,
  ERROR_DETAIL,
  LINKS,
  PARAMETERS,
} from './common_extras.ts'
import { BODIES, EXAMPLES } from './examples.ts'

// biome-ignore lint/suspicious/noExplicitAny: a JSON document
type Node = Record<string, any>

/** The additions of one server to the contract, besides those of all servers (`common_extras.ts`). */
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
    operation.responses = answersOf(operation, responses, extras)
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
function answersOf({ operationId, responses }: Node, shared: Node, extras: Extras): Node {
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
