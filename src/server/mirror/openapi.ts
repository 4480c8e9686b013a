import { z } from 'zod'
import { MIRROR_PATH, type MirrorRoute } from './route.ts'

type Node = Readonly<Record<string, unknown>>

const ERROR = {
  type: 'object',
  required: ['error', 'detail'],
  properties: {
    error: { type: 'string', description: 'A code for programs.' },
    detail: { type: 'string', description: 'A sentence for people.' },
  },
}

const refusal = (description: string): Node => ({
  description,
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
})

/** Answers of every route. */
const RESPONSES: Readonly<Record<string, Node>> = {
  '400': refusal('A parameter is wrong: `invalid_parameter`.'),
  '401': {
    description: 'There is no valid key.',
    content: {
      'application/json': {
        schema: { type: 'object', required: ['error'], properties: { error: { const: 'unauthorized' } } },
      },
    },
  },
  '403': refusal('The key lacks the scope of this route.'),
  '404': refusal('There is no such route, or no such resource.'),
  '429': refusal('The key sent too many requests; see `Retry-After`.'),
  '503': refusal('There is no snapshot of this company yet, or it is being prepared; see `Retry-After`.'),
}

const ABOUT = `What the API of the contract does not have: changes since a point in time, search, export. Data is that of the
latest published snapshot, and of the key's company alone. Parameters that a route does not have are refused.

A key has scopes (\`npm run keys -- create --scopes read,feed\`). If it has a quota, answers have \`RateLimit-Policy\` and \`RateLimit\`.`

/** Describes the mirror's own API in OpenAPI 3.1. */
export function describeMirror(routes: readonly MirrorRoute[]): Node {
  const paths: Record<string, Record<string, Node>> = {}
  for (const route of routes) {
    const path = MIRROR_PATH + route.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] ??= {}
    paths[path][route.method.toLowerCase()] = operationOf(route)
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Tender notices: mirror', version: '1.0.0', description: ABOUT },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }, { apiKey: [] }],
    paths,
    components: {
      schemas: { Error: ERROR },
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
      },
    },
  }
}

function operationOf(route: MirrorRoute): Node {
  const inPath = Object.entries(route.parameters ?? {}).map(([name, description]) => ({
    ...{ name, in: 'path', required: true, description },
    schema: { type: 'string', minLength: 1 },
  }))
  return {
    operationId: route.name,
    summary: route.summary,
    description: `${route.description}\n\nScope: \`${route.scope}\`.`,
    parameters: [...inPath, ...queryParameters(route.query)],
    ...(route.body ? { requestBody: route.body } : {}),
    responses: { ...RESPONSES, ...route.responses },
  }
}

function queryParameters(query: z.ZodObject): Node[] {
  const { properties = {}, required = [] } = z.toJSONSchema(query, { io: 'input', target: 'draft-2020-12' })
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...schema } = property as { description?: string }
    return { name, in: 'query', required: required.includes(name), description, schema }
  })
}
