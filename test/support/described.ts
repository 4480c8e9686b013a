import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

type Schemas = Readonly<Record<string, object>>

/**
 * Validates bodies against the OpenAPI description that a server publishes, with an independent validator.
 * @returns a function from a schema's name and a body to its errors; null if there are none.
 */
export async function describedAt(url: string): Promise<(schema: string, body: unknown) => string | null> {
  const response = await fetch(`${url}/openapi.json`)
  const description = (await response.json()) as { components: { schemas: Schemas } }
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema(description, 'api')
  return (schema, body) => {
    const judge = ajv.getSchema(`api#/components/schemas/${schema}`)
    if (!judge) throw new Error(`${url}/openapi.json has no schema ${schema}`)
    return judge(body) ? null : ajv.errorsText(judge.errors)
  }
}
