import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { STATUSES } from '#schema/notice.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { createApiRoutes, LIST_PATH } from '#src/server/contract/routes.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { openSandbox } from '#test/support/sandbox.ts'
import { type Answer, askAt, serveApi } from '#test/support/serve.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'

const ONE_PATH = `${LIST_PATH}/{id}`
const ANALYSIS_PATH = `${ONE_PATH}/analysis`

async function descriptionAt(url: string): Promise<Node> {
  return (await (await fetch(`${url}/openapi.json`)).json()) as Node
}

async function servedMirror(options: Parameters<typeof serveApi>[1] = {}) {
  const company = await startCompany(notices(1, 12))
  if (options.ready?.length !== 0) await company.syncHere()
  return await serveApi(company.environment, options)
}

/** The OpenAPI documents of both servers, by name. */
async function descriptions(): Promise<[string, Node][]> {
  const { sandbox } = await openSandbox()
  const { url } = await servedMirror()
  return [
    ['sandbox', await descriptionAt(sandbox.url)],
    ['mirror', await descriptionAt(url)],
  ]
}

const operationsOf = ({ paths }: Node): [string, Node][] =>
  Object.entries<Node>(paths).map(([path, { get }]) => [path, get])

/** Resolves a `$ref` within the document; returns any other value itself. */
function follow(description: Node, value: Node): Node {
  if (!value.$ref) return value
  const names: string[] = value.$ref.split('/').slice(1)
  return names.reduce((at, name) => at[name], description)
}

test('sandbox and mirror serve valid OpenAPI 3.1, in which every reference and link resolves', async () => {
  for (const [name, description] of await descriptions()) {
    const validator = new Validator()
    expect([name, await validator.validate(structuredClone(description)), validator.version]).toEqual([
      name,
      { valid: true },
      '3.1',
    ])
    for (const [, target = ''] of JSON.stringify(description).matchAll(/"\$ref":"([^"]*)"/g)) {
      expect(follow(description, { $ref: target }), target).toBeDefined()
    }
    const ids = operationsOf(description).map(([, { operationId }]) => operationId)
    const links = operationsOf(description).flatMap(([, { responses }]) =>
      Object.values<Node>(responses['200'].links),
    )
    expect(links).toHaveLength(4)
    for (const { operationId } of links) expect(ids).toContain(operationId)
  }
})

test('every parameter, body and document has an example that matches its schema', async () => {
  for (const [name, description] of await descriptions()) {
    const wrong = judgeOf(description)
    const found: (string | null)[] = []
    for (const [path, { parameters, responses }] of operationsOf(description)) {
      for (const parameter of parameters.map((one: Node) => follow(description, one))) {
        const examples = Object.values<Node>(parameter.examples)
        expect(examples.length, `${name} ${path} ${parameter.name}`).toBeGreaterThan(0)
        for (const { value } of examples) found.push(wrong(parameter.schema, value))
      }
      for (const [status, { content }] of Object.entries<Node>(responses)) {
        if (status === '304') continue
        const { schema, examples } = content['application/json']
        expect(Object.keys(examples).length, `${name} ${path} ${status}`).toBeGreaterThan(0)
        for (const example of Object.values<Node>(examples)) {
          found.push(wrong(schema, follow(description, example).value))
        }
      }
    }
    for (const schema of ['Edital', 'EditalAnalysis', 'EditalPage']) {
      for (const example of description.components.schemas[schema].examples) {
        found.push(wrong({ $ref: `#/components/schemas/${schema}` }, example))
      }
    }
    expect(found.filter(problem => problem !== null)).toEqual([])
    expect(found.length).toBeGreaterThan(30)
  }
})

test("the notice of the examples is in the sandbox's default world", async () => {
  const [, description] = (await descriptions())[0] as [string, Node]
  const { id } = description.components.examples.Edital.value
  expect(description.components.parameters.EditalId.examples.sandbox.value).toBe(id)
  const options = { seed: '1', company: 'aurora', notices: 300, start: new Date() }
  expect(generateWorld(options).entry(id)?.edital).toMatchObject({
    pncp_id: description.components.examples.Edital.value.pncp_id,
  })
})

/** What in an answer is not as described; empty if all is. */
function undescribed(description: Node, path: string, { status, headers, body }: Answer): string[] {
  const wrong = judgeOf(description)
  const response = description.paths[path].get.responses[status]
  if (!response) return [`${path} does not describe ${status}`]
  const problems = Object.entries<Node>(response.headers ?? {}).map(([name, { required, schema }]) => {
    const value = headers[name.toLowerCase()]
    if (value === undefined) return required ? `${status}: no ${name}` : null
    const problem = wrong(schema, schema.type === 'integer' ? Number(value) : value)
    return problem && `${status}: ${name} ${problem}`
  })
  const content = response.content?.['application/json']
  if (!content) problems.push(body.length > 0 ? `${status} has a body` : null)
  else {
    if (headers['content-type'] !== 'application/json') problems.push(`${status}: ${headers['content-type']}`)
    problems.push(wrong(content.schema, JSON.parse(body.toString())))
  }
  return problems.filter(problem => problem !== null)
}

/** Statuses that an operation describes but that no answer had. */
function unseen(description: Node, path: string, answers: readonly Answer[]): string[] {
  const seen = new Set(answers.map(({ status }) => String(status)))
  return Object.keys(description.paths[path].get.responses).filter(status => !seen.has(status))
}

type Ask = (path: string, question?: Question) => Promise<Answer>
type Question = { readonly method?: string; readonly headers?: Record<string, string>; readonly key?: null }

/** Requests that both servers answer alike, by the path in the document. */
async function askForTrouble(ask: Ask, id: string): Promise<[string, Answer[]][]> {
  const troubles = (path: string) => [
    ask(path),
    ask(path, { key: null }),
    ask(path, { method: 'POST' }),
    ask(path, { headers: { host: 'a b' } }),
    ask(`${path}?${'a'.repeat(4200)}`),
    ask(path, { headers: { 'x-large': 'a'.repeat(20_000) } }),
  ]
  const missing = `${LIST_PATH}/${'f'.repeat(32)}`
  return [
    [LIST_PATH, await Promise.all([...troubles(LIST_PATH), ask(`${LIST_PATH}?status=won`)])],
    [ONE_PATH, await Promise.all([...troubles(`${LIST_PATH}/${id}`), ask(missing)])],
    [
      ANALYSIS_PATH,
      await Promise.all([...troubles(`${LIST_PATH}/${id}/analysis`), ask(`${missing}/analysis`)]),
    ],
  ]
}

test("the sandbox's answers are described, and every described status occurs", async () => {
  const { sandbox, key, world } = await openSandbox()
  const description = await descriptionAt(sandbox.url)
  const ask: Ask = (path, { method = 'GET', headers = {}, key: none } = {}) =>
    askAt(`${sandbox.url}${path}`, {
      method,
      headers: { ...(none === null ? {} : { 'x-api-key': key }), ...headers },
    })
  for (const [path, answers] of await askForTrouble(ask, world.ids()[0] as string)) {
    expect(answers.flatMap(answer => undescribed(description, path, answer))).toEqual([])
    // The first takes too long for a test, the second needs a bug.
    expect(unseen(description, path, answers)).toEqual(['408', '500'])
  }
})

test("the mirror's answers are described, and every described status occurs", async () => {
  const mirror = await servedMirror()
  const limited = await servedMirror({ maxRps: 1, corsOrigins: ['https://erp.example'] })
  const empty = await servedMirror({ ready: [] })
  const description = await descriptionAt(mirror.url)
  for (const [path, answers] of await askForTrouble(mirror.ask, idOf(1))) {
    const asked = path.replace('{id}', idOf(1))
    answers.push(await mirror.ask(asked, { headers: { 'if-none-match': '*', 'x-request-id': 'erp 42' } }))
    answers.push(...(await Promise.all([1, 2, 3].map(() => limited.ask(asked)))))
    answers.push(await empty.ask(asked))
    expect(answers.flatMap(answer => undescribed(description, path, answer))).toEqual([])
    expect(unseen(description, path, answers)).toEqual(['408', '500'])
  }
})

test('the pattern of `status` accepts exactly what the API accepts', async () => {
  const { sandbox } = await openSandbox()
  const { parameters } = (await descriptionAt(sandbox.url)).paths[LIST_PATH].get
  const pattern = new RegExp(parameters.find(({ name }: Node) => name === 'status').schema.pattern, 'u')
  const nothing = async () => ({ editais: [], total: 0 })
  const api = createApiRoutes({ companyOfKey: () => ({ list: nothing, get: nothing, analysis: nothing }) })
  const piece = fc.constantFrom(...STATUSES, ...STATUSES, ',', ',', ' ', '\t', '\n', '\u00a0', 'x', 'READY')
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 8 }), async pieces => {
      const text = pieces.join('')
      const query = new URLSearchParams({ status: text })
      const { status } = await api.request(`${LIST_PATH}?${query}`, { headers: { 'x-api-key': 'any' } })
      expect([text, status]).toEqual([text, pattern.test(text) ? 200 : 400])
    }),
    { numRuns: 1000 },
  )
})

const DESCRIPTION = '/api/v1/mirror/openapi.json'

async function served() {
  const world = generateWorld({ seed: '9', company: 'aurora', notices: 30, start: new Date('2026-11-20') })
  const api = await serveApi((await startSynced(world)).environment)
  return { api, description: await api.json<Node>(DESCRIPTION, { key: null }) }
}

/** Values that fit the schema of a parameter, and some that do not. */
function valuesOf({ schema }: Node): fc.Arbitrary<string> {
  const fitting = schema.enum
    ? fc.constantFrom<string>(...schema.enum)
    : schema.type === 'integer'
      ? fc.integer({ min: schema.minimum, max: schema.maximum }).map(String)
      : schema.pattern
        ? fc.stringMatching(new RegExp(schema.pattern))
        : fc.string({ unit: 'grapheme', minLength: schema.minLength ?? 0, maxLength: schema.maxLength ?? 30 })
  return fc.oneof({ weight: 5, arbitrary: fitting }, { weight: 1, arbitrary: fc.string({ unit: 'binary' }) })
}

/** What in an answer is not as described; null if all is. */
function problemIn(description: Node, operation: Node, { status, headers, body }: Answer): string | null {
  const response = operation.responses[status]
  if (!response) return `${status} is not described`
  const [type] = Object.keys(response.content ?? {})
  if (type === undefined) return body.length === 0 ? null : `${status} has a body`
  if (headers['content-type'] !== type) return `${status} is ${headers['content-type']}`
  const value = type === 'application/json' ? JSON.parse(body.toString()) : body.toString()
  return judgeOf(description)(response.content[type].schema, value)
}

test("the mirror's own description is valid OpenAPI 3.1", async () => {
  const { description } = await served()
  const validator = new Validator()
  expect(await validator.validate(structuredClone(description))).toEqual({ valid: true })
  const operations = Object.values<Node>(description.paths).flatMap(path => Object.values(path) as Node[])
  const parameters = operations.flatMap(({ parameters }) => parameters as Node[])
  expect(parameters.length).toBeGreaterThan(10)
  for (const { name, description: words } of parameters)
    expect([name, words]).toEqual([name, expect.any(String)])
})

test("the mirror's own API answers whatever is asked as it is described", async () => {
  const { api, description } = await served()
  for (const [path, { get }] of Object.entries<Node>(description.paths)) {
    // MCP has a protocol, and tests, of its own.
    if (get === undefined) continue
    // A minute of waiting is described as well as none.
    const quick = (get.parameters as Node[]).filter(({ name }) => name !== 'wait')
    const parameters = quick.map(one => fc.tuple(fc.constant(one.name), valuesOf(one)))
    const seen = new Set<number>()
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(...parameters),
        fc.array(fc.nat(), { maxLength: 3 }),
        async (values, numbers) => {
          const chosen = new Map(
            numbers.flatMap(number => values.slice(number % (values.length || 1)).slice(0, 1)),
          )
          const query = new URLSearchParams([...chosen])
          const answer = await api.ask(`${path}?${query}`)
          seen.add(answer.status)
          expect(answer.status).toBeLessThan(500)
          expect(problemIn(description, get, answer)).toBeNull()
        },
      ),
      { seed: 21, numRuns: 150 },
    )
    expect(seen).toContain(200)
    for (const answer of [await api.ask(path, { key: null }), await api.ask(`${path}?x=1`)])
      expect(problemIn(description, get, answer)).toBeNull()
  }
})

// biome-ignore lint/suspicious/noExplicitAny: a JSON document
type Node = Record<string, any>

/** Validates a value against a schema of the document; returns the errors, or null if there are none. */
function judgeOf(description: Node): (schema: object, value: unknown) => string | null {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema(description, 'api')
  return (schema, value) => {
    const absolute = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"api#/'))
    return ajv.validate(absolute, value) ? null : ajv.errorsText(ajv.errors)
  }
}
