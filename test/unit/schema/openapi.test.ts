import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { LIST_LIMIT } from '#schema/notice.ts'
import { analysis, notice, noticePage } from '#schema/zod.ts'
import { describeContract } from '#src/server/contract/openapi.ts'
import { fieldsBelow, partBelow, quoted, tableBelow } from '#test/support/contract_tables.ts'

type Node = { readonly [keyword: string]: unknown }
type Field = { type: string; values?: string; format?: string; required: boolean }
type Fields = Map<string, Field>

const document: Node = await describeContract()

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : []
}

/** What a JSON pointer within `root` (`#/components/schemas/Edital`) names, or undefined. */
function resolve(root: Node, pointer: string): unknown {
  let at: unknown = root
  for (const part of pointer.split('/').slice(1)) {
    at = isNode(at) ? at[part.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined
  }
  return at
}

function schemaNamed(root: Node, name: string): Node {
  const schema = resolve(root, `#/components/schemas/${name}`)
  if (!isNode(schema)) throw new Error(`no schema ${name} in the document`)
  return schema
}

/** An unknown keyword could change what a schema accepts, so it stops the comparison. */
const COMPARED =
  /^(type|enum|const|format|properties|required|items|anyOf|oneOf|\$ref|description|additionalProperties|\$schema|minimum|maximum)$/

/** The single-typed schemas that `schema` is a choice of, with references followed. */
function alternatives(root: Node, schema: Node): Node[] {
  const unknown = Object.keys(schema).find(keyword => !COMPARED.test(keyword))
  if (unknown) throw new Error(`cannot compare a schema with the keyword ${unknown}`)
  if (typeof schema.$ref === 'string') {
    const target = resolve(root, schema.$ref)
    if (!isNode(target)) throw new Error(`nothing at ${schema.$ref}`)
    return alternatives(root, target)
  }
  const choice = schema.anyOf ?? schema.oneOf
  if (Array.isArray(choice)) return choice.filter(isNode).flatMap(each => alternatives(root, each))
  if (Array.isArray(schema.type)) return strings(schema.type).map(type => ({ ...schema, type }))
  return [schema]
}

/**
 * Every field below `schema`, by path (`items[].numero_lote`). Two differences are documented and
 * normalised away here: ours accepts null in every optional field, and is strict about properties
 * that are not named, if the document does not mention them.
 */
function fieldsOf(root: Node, schema: Node, path = '', required = true, found: Fields = new Map()): Fields {
  const choices = alternatives(root, schema).filter(each => required || each.type !== 'null')
  const values = choices.flatMap(each => strings(each.enum ?? (each.const === undefined ? [] : [each.const])))
  const format = choices.find(each => each.type === 'string' && each.format)?.format
  found.set(path, {
    type: choices
      .map(each => String(each.type ?? 'any'))
      .sort()
      .join('|'),
    ...(values.length > 0 ? { values: JSON.stringify(values.sort()) } : {}),
    ...(format ? { format: String(format) } : {}),
    required,
  })
  for (const choice of choices) {
    const demanded = strings(choice.required)
    for (const [name, property] of Object.entries(isNode(choice.properties) ? choice.properties : {})) {
      if (!isNode(property)) throw new Error(`${path}.${name} is no schema`)
      fieldsOf(root, property, path ? `${path}.${name}` : name, demanded.includes(name), found)
    }
    if (isNode(choice.items)) fieldsOf(root, choice.items, `${path}[]`, true, found)
  }
  return found
}

/** Each field in which the two differ, as a sentence; none when they agree in both directions. */
function differences(documented: Fields, ours: Fields): string[] {
  const found: string[] = []
  for (const path of new Set([...documented.keys(), ...ours.keys()])) {
    const [theirs, own] = [documented.get(path), ours.get(path)]
    if (!theirs) found.push(`${path}: not in the document`)
    else if (!own) found.push(`${path}: not in our schema`)
    else {
      for (const aspect of ['type', 'values', 'format', 'required'] as const) {
        if (theirs[aspect] !== own[aspect])
          found.push(`${path}: ${aspect} is ${theirs[aspect]} in the document, ${own[aspect]} in our schema`)
      }
    }
  }
  return found
}

const documented = (name: string, root = document) => fieldsOf(root, schemaNamed(root, name))

function ours(schema: z.ZodType): Fields {
  const root = z.toJSONSchema(schema) as Node
  return fieldsOf(root, root)
}

describe('The OpenAPI document and the zod schemas', () => {
  it('agree on every field of a notice', () => {
    expect(differences(documented('Edital'), ours(notice))).toEqual([])
    expect(documented('Edital').size).toBeGreaterThanOrEqual(Object.keys(notice.shape).length)
  })

  it('agree on every field of an analysis, down to nested objects and elements', () => {
    expect(differences(documented('EditalAnalysis'), ours(analysis))).toEqual([])
    expect(documented('EditalAnalysis').get('items[].numero_lote')).toEqual({
      type: 'integer',
      required: false,
    })
  })

  it('agree on the envelope of a page, whose elements are validated one by one', () => {
    const page = documented('EditalPage')
    const envelope = new Map([...page].filter(([path]) => !path.startsWith('editais[]')))
    const own = ours(noticePage)
    own.delete('editais[]')
    expect(differences(envelope, own)).toEqual([])
  })
})

/** Edits a copy of the document in one place and lists how its analysis then differs from the original's. */
function afterEditing(pointer: string, edit: (at: Record<string, unknown>) => void): string[] {
  const copy = structuredClone(document)
  edit(resolve(copy, pointer) as Record<string, unknown>)
  return differences(documented('EditalAnalysis', copy), documented('EditalAnalysis'))
}

describe('The comparison notices', () => {
  const item = '#/components/schemas/Item/properties'

  it('a field that the document lacks', () => {
    expect(afterEditing(item, at => delete at.numero_lote)).toEqual([
      'items[].numero_lote: not in the document',
    ])
  })

  it('a field that our schema lacks', () => {
    const edit = (at: Record<string, unknown>) => Object.assign(at, { peso: { type: 'number' } })
    expect(afterEditing(item, edit)).toEqual(['items[].peso: not in our schema'])
  })

  it('another type', () => {
    expect(afterEditing(`${item}/numero_item`, at => Object.assign(at, { type: 'number' }))).toEqual([
      'items[].numero_item: type is number in the document, integer in our schema',
    ])
  })

  it('another value of an enum, in a component shared by reference too', () => {
    const edit = (at: Record<string, unknown>) => Object.assign(at, { enum: ['M', 'X'] })
    expect(afterEditing(`${item}/material_ou_servico`, edit)).toEqual([
      'items[].material_ou_servico: values is ["M","X"] in the document, ["M","S"] in our schema',
    ])
    const shorter = afterEditing(
      '#/components/schemas/AnalysisLevel',
      at => strings(at.enum) && delete at.enum,
    )
    expect(shorter).toHaveLength(1)
  })

  it('a field that is required on one side only', () => {
    const analysisSchema = '#/components/schemas/EditalAnalysis'
    expect(
      afterEditing(analysisSchema, at => Object.assign(at, { required: strings(at.required).slice(1) })),
    ).toEqual(['id: required is false in the document, true in our schema'])
    expect(
      afterEditing('#/components/schemas/Pricing', at => Object.assign(at, { required: ['sigiloso'] })),
    ).toEqual(['pricing.sigiloso: required is true in the document, false in our schema'])
  })

  it('another format, and null in a required field', () => {
    const properties = '#/components/schemas/EditalAnalysis/properties'
    expect(afterEditing(`${properties}/data_sessao`, at => delete at.format)).toHaveLength(1)
    expect(
      afterEditing(`${properties}/analyzed`, at => Object.assign(at, { type: ['boolean', 'null'] })),
    ).toEqual(['analyzed: type is boolean|null in the document, boolean in our schema'])
  })

  it('a keyword that it does not understand', () => {
    expect(() => afterEditing(item, at => Object.assign(at, { peso: { allOf: [] } }))).toThrow(
      'keyword allOf',
    )
  })
})

describe('The OpenAPI document', () => {
  it('is OpenAPI 3.1 at version 1.0.0, with three paths and two alternative ways to send the key', () => {
    expect(document.openapi).toMatch(/^3\.1\./)
    expect(resolve(document, '#/info/version')).toBe('1.0.0')
    const responses = Object.entries(document.paths as Record<string, Node>).map(([path, operations]) => [
      path,
      Object.keys(operations),
      Object.keys(resolve(operations, '#/get/responses') as Node),
    ])
    expect(responses).toEqual([
      ['/api/v1/editais', ['get'], ['200', '400', '401', '500']],
      ['/api/v1/editais/{id}', ['get'], ['200', '401', '404', '500']],
      ['/api/v1/editais/{id}/analysis', ['get'], ['200', '401', '404', '500']],
    ])
    expect(document.security).toEqual([{ bearer: [] }, { apiKeyHeader: [] }])
    expect(resolve(document, '#/components/securitySchemes')).toMatchObject({
      bearer: { type: 'http', scheme: 'bearer' },
      apiKeyHeader: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
    })
  })

  it('has something at every reference, and refers to every component', () => {
    const references = JSON.stringify(document).matchAll(/"\$ref":"([^"]*)"/g)
    const targets = new Set([...references].map(([, target]) => target ?? ''))
    expect([...targets].filter(target => !isNode(resolve(document, target)))).toEqual([])
    const components = ['schemas', 'responses', 'parameters'].flatMap(kind =>
      Object.keys(resolve(document, `#/components/${kind}`) as Node).map(
        name => `#/components/${kind}/${name}`,
      ),
    )
    expect([...targets].sort()).toEqual(components.sort())
  })

  it('has the bounds of the list that the client uses', () => {
    const parameters = resolve(document, '#/paths/~1api~1v1~1editais/get/parameters') as Node[]
    expect(Object.fromEntries(parameters.map(each => [each.name, each.schema]))).toEqual({
      status: { type: 'string' },
      limit: {
        type: 'integer',
        minimum: LIST_LIMIT.min,
        maximum: LIST_LIMIT.max,
        default: LIST_LIMIT.default,
      },
      offset: { type: 'integer', minimum: 0, default: 0 },
    })
  })

  it('leaves exactly the free-form objects open', () => {
    const open = ['Overview', 'Operational', 'Requirement/properties/metadata'].map(
      name => resolve(document, `#/components/schemas/${name}/additionalProperties`) ?? name,
    )
    expect(open).toEqual([true, true, true])
    expect(JSON.stringify(document).match(/"additionalProperties":/g)).toHaveLength(open.length)
  })
})

/** Headings of the contract's tables of fields, and the document's schema for each. */
const HEADINGS: Readonly<Record<string, string>> = {
  Notice: 'Edital',
  Analysis: 'EditalAnalysis',
  Verdict: 'Verdict',
  Overview: 'Overview',
  Requirement: 'Requirement',
  Item: 'Item',
  Alert: 'Alert',
  Pricing: 'Pricing',
  'Payment report': 'OrgaoReport',
  Page: 'EditalPage',
  Error: 'Error',
  'Unknown status': 'InvalidStatusError',
}

/** A type as the contract words it (`string, enum`, `array of Item`, `object (free-form)`), from a schema. */
function worded(schema: Node): string {
  const [first = {}] = alternatives(document, schema)
  const elements = isNode(first.items) ? (first.items.$ref ?? first.items.type) : undefined
  const named = String(elements).split('/').pop()
  const heading = Object.entries(HEADINGS).find(([, name]) => name === named)?.[0] ?? named
  return [
    String(first.type ?? 'any'),
    elements ? ` of ${heading}` : '',
    first.additionalProperties === true ? ' (free-form)' : '',
    first.format === 'double' ? ' (double)' : '',
    first.format === 'date-time' ? ', date-time' : '',
    first.enum ? ', enum' : '',
  ].join('')
}

/** Whether a field is there, as the contract words it. */
function presence(schema: Node, required: boolean): string {
  const nullable = alternatives(document, schema).some(each => each.type === 'null')
  return `${required ? 'always' : 'may be absent'}${nullable ? ' or null' : ''}`
}

describe('The contract (docs/contract.md)', () => {
  it.each(Object.entries(HEADINGS))(
    '%s: has the fields, types, enums and obligations of the document',
    (heading, name) => {
      const schema = schemaNamed(document, name)
      const required = strings(schema.required)
      expect(fieldsBelow(heading)).toEqual(
        Object.entries(schema.properties as Record<string, Node>).map(([field, property]) => ({
          name: field,
          type: worded(property),
          presence: presence(property, required.includes(field)),
          values: strings(alternatives(document, property)[0]?.enum),
        })),
      )
    },
  )

  it('has a table of fields for every schema of an object with named fields', () => {
    const schemas = Object.entries(resolve(document, '#/components/schemas') as Record<string, Node>)
    const named = schemas.filter(([, schema]) => isNode(schema.properties)).map(([name]) => name)
    expect(Object.values(HEADINGS).sort()).toEqual(named.sort())
  })

  it('names the phases and levels', () => {
    const phases = tableBelow('Phases and levels').map(([phase = '']) => quoted(phase)[0])
    expect(phases).toEqual(schemaNamed(document, 'Status').enum)
    const levels = /how deep evaluations have gone: (.*?)\./.exec(partBelow('Phases and levels'))?.[1] ?? ''
    expect(quoted(levels)).toEqual(schemaNamed(document, 'AnalysisLevel').enum)
  })

  it('names the endpoints, what each answers, and the body of a 400', () => {
    const paths = Object.entries(document.paths as Record<string, Node>).map(([path, operations]) => [
      `GET ${path}`,
      Object.keys(resolve(operations, '#/get/responses') as Node),
    ])
    const rows = tableBelow('Endpoints').map(([endpoint = '', , others = '']) => [
      quoted(endpoint)[0],
      ['200', ...others.split(', ')],
    ])
    expect(rows).toEqual(paths)
    const bodies = tableBelow('Unknown status').map(([, , , body = '']) => quoted(body)[0])
    const { error, detail } = schemaNamed(document, 'InvalidStatusError').properties as Record<string, Node>
    expect(bodies).toEqual([error?.const, quoted(String(detail?.description))[0]])
  })

  it('has the bounds of the list', () => {
    const bounds = tableBelow('Limits').map(([name = '', bound, value]) => [
      quoted(name)[0],
      bound,
      Number(value),
    ])
    expect(bounds).toEqual([
      ['limit', 'default', LIST_LIMIT.default],
      ['limit', 'minimum', LIST_LIMIT.min],
      ['limit', 'maximum', LIST_LIMIT.max],
      ['offset', 'default', 0],
      ['offset', 'minimum', 0],
    ])
  })
})
