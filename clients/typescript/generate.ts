import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import openapiTS, { astToString } from 'openapi-typescript'
import { openApiDocuments } from '../documents.ts'

const DIRECTORY = join(import.meta.dirname, 'src/generated')
const HEADING = '// Made by generate.ts from the OpenAPI documents of the server. Changes are lost.\n\n'

/** Writes the types of both OpenAPI documents. */
export async function generate(): Promise<void> {
  await mkdir(DIRECTORY, { recursive: true })
  for (const [name, document] of Object.entries(await openApiDocuments())) {
    const types = HEADING + astToString(await openapiTS(JSON.stringify(document)))
    const path = join(DIRECTORY, `${name}.ts`)
    // A compiler may read it at this moment.
    if ((await readFile(path, 'utf8').catch(() => null)) !== types) await writeFile(path, types)
  }
}

if (import.meta.main) await generate()
