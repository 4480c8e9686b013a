import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

// biome-ignore lint/suspicious/noExplicitAny: a JSON document
export type Node = Record<string, any>

/** Validates a value against a schema of the document; returns the errors, or null if there are none. */
export function judgeOf(description: Node): (schema: object, value: unknown) => string | null {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema(description, 'api')
  return (schema, value) => {
    const absolute = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"api#/'))
    return ajv.validate(absolute, value) ? null : ajv.errorsText(ajv.errors)
  }
}
