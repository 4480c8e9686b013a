import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openApiDocuments } from '#clients/documents.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { serveApi } from '#test/support/serve.ts'

const ROOT = join(import.meta.dirname, '../../..')

test('types of clients are made from the descriptions that a server serves', async () => {
  const { contract, mirror } = await openApiDocuments()
  const api = await serveApi({ DATA_DIR: await temporaryDirectory() }, { ready: [] })
  expect(contract).toEqual(await api.json('/openapi.json', { key: null }))
  expect(mirror).toEqual(await api.json('/api/v1/mirror/openapi.json', { key: null }))
})

test('the TypeScript client has the version of the program, and its manual names it', async () => {
  const versionIn = async (path: string) =>
    JSON.parse(await readFile(join(ROOT, path, 'package.json'), 'utf8')).version
  const version = await versionIn('.')
  expect(await versionIn('clients/typescript')).toBe(version)
  expect(await readFile(join(ROOT, 'clients/typescript/README.md'), 'utf8')).toContain(
    `editais-sync-client-${version}.tgz`,
  )
})
