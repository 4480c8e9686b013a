import { ANALYSIS } from './analysis.ts'
import { NOTICE } from './notice.ts'
import type { Field, Fields, Value, ValueType } from './record.ts'

/** The schemas of the contract's documents in OpenAPI, from their records; `openapi.yaml` describes them in words. */

type Schema = { readonly [keyword: string]: unknown }

const TYPES: Readonly<Record<ValueType, Schema>> = {
  id: { type: 'string' },
  string: { type: 'string' },
  'date-time': { type: 'string', format: 'date-time' },
  integer: { type: 'integer' },
  number: { type: 'number' },
  double: { type: 'number', format: 'double' },
  boolean: { type: 'boolean' },
  strings: { type: 'array', items: { type: 'string' } },
  object: { type: 'object', additionalProperties: true },
  any: {},
}

/** Makes the schemas of the documents, by the name of the component: its `properties`, `required` and `enum`. */
export function documentSchemas(): Readonly<Record<string, Schema>> {
  const found: Record<string, Schema> = {}
  addObject(found, 'Edital', NOTICE)
  addObject(found, 'EditalAnalysis', ANALYSIS)
  return found
}

function addObject(found: Record<string, Schema>, component: string, fields: Fields): void {
  const entries = Object.entries(fields)
  const required = entries.filter(([, { always }]) => always).map(([name]) => name)
  const properties = entries.map(([name, field]) => [name, makeProperty(field)])
  found[component] = {
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(properties),
  }
  for (const [, field] of entries) {
    if ('each' in field) addObject(found, field.each.component, field.each.fields)
    else if ('part' in field) addObject(found, field.part.component, field.part.fields)
    else if (field.component && field.values) found[field.component] = { enum: field.values }
  }
}

function makeProperty(field: Field): Schema {
  const description = describeField(field)
  if ('each' in field) return { ...description, type: 'array', items: reference(field.each.component) }
  const component = 'part' in field ? field.part.component : field.component
  if (component === undefined) return { ...valueSchema(field as Value), ...description }
  if (!field.nullable) return reference(component)
  return { ...description, anyOf: [reference(component), { type: 'null' }] }
}

function valueSchema({ type, values, nullable }: Value): Schema {
  const schema = TYPES[type]
  return {
    ...schema,
    ...(nullable && { type: [schema.type, 'null'] }),
    ...(values && { enum: values }),
  }
}

function describeField(field: Field): Schema {
  if (field.api === undefined) return {}
  if (field.api !== true) return { description: field.api }
  const words = 'description' in field ? field.description : undefined
  return { description: `${words}.` }
}

function reference(component: string): Schema {
  return { $ref: `#/components/schemas/${component}` }
}
