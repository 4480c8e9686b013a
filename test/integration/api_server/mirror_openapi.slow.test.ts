import { Validator } from '@seriousme/openapi-schema-validator'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { judgeOf, type Node } from '#test/support/openapi.ts'
import { type Answer, serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

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
function undescribed(description: Node, operation: Node, { status, headers, body }: Answer): string | null {
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
          expect(undescribed(description, get, answer)).toBeNull()
        },
      ),
      { seed: 21, numRuns: 150 },
    )
    expect(seen).toContain(200)
    for (const answer of [await api.ask(path, { key: null }), await api.ask(`${path}?x=1`)])
      expect(undescribed(description, get, answer)).toBeNull()
  }
})
