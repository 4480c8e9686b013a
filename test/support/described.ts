import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

type Schemas = Readonly<Record<string, object>>

/**
 * Judges bodies by the description that an address gives of itself, with a validator that is not ours.
 * @returns for the name of a schema and a body what is wrong with it; null where nothing is.
 */
export async function describedAt(url: string): Promise<(schema: string, body: unknown) => string | null> {
  const response = await fetch(`${url}/openapi.json`)
  const description = (await response.json()) as { components: { schemas: Schemas } }
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema(description, 'api')
  return (schema, body) => {
    const judge = ajv.getSchema(`api#/components/schemas/${schema}`)
    if (!judge) throw new Error(`${url} describes no ${schema}`)
    return judge(body) ? null : ajv.errorsText(judge.errors)
  }
}
