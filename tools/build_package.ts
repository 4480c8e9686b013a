import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join } from 'node:path'

/**
 * Writes `dist/`, the program as `npm pack` takes it: Node runs no TypeScript below `node_modules`, so the types are stripped,
 * and files are named `.js` in their names and wherever a text names one. A checkout and the image need none of this.
 */

const PROJECT = join(import.meta.dirname, '..')
const DIST = join(PROJECT, 'dist')
/** As in the Dockerfile: `config/` may hold files of this installation, which are nobody else's. */
const INCLUDED = /^(src|jobs|schema|config\/metabase|config\/trino)\/|^config\/[^/]+\.ts$/
/** A module's or a worker's path: `'./child.ts'`, `'#src/sync.ts'`. */
const NAMED_MODULE = /(?<=(['"])[#.\w/-]+)\.ts(?=\1)/g

await rm(DIST, { recursive: true, force: true })
const entries = await readdir(PROJECT, { recursive: true, withFileTypes: true })
for (const entry of entries) {
  const path = join(entry.parentPath, entry.name).slice(PROJECT.length + 1)
  if (!entry.isFile() || !INCLUDED.test(path)) continue
  const target = join(DIST, path.replace(/\.ts$/, '.js'))
  await mkdir(dirname(target), { recursive: true })
  if (!/\.[jt]s$/.test(path)) {
    await cp(join(PROJECT, path), target)
    continue
  }
  const code = await readFile(join(PROJECT, path), 'utf8')
  const stripped = path.endsWith('.ts') ? stripTypeScriptTypes(code) : code
  await writeFile(target, stripped.replaceAll(NAMED_MODULE, '.js'))
}
const { name, version, type, imports } = JSON.parse(await readFile(join(PROJECT, 'package.json'), 'utf8'))
await writeFile(join(DIST, 'package.json'), JSON.stringify({ name, version, type, imports }))
