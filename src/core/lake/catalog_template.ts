import { randomBytes } from 'node:crypto'
import { lstatSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { getCompileCacheDir } from 'node:module'
import { dirname, join } from 'node:path'
import { version } from '@duckdb/node-api'
import { publishedColumns, TABLES } from '#schema/tables.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { excess, LAKE_DIRECTORY } from '#src/lib/access.ts'
import { dropPath, movePath } from '#src/lib/durable.ts'
import { digestOf, hashOf } from '#src/lib/hash.ts'
import { type CatalogFile, writeTemplate } from './catalog.ts'

const NAME = /^catalog-([0-9a-f]{64})-([0-9a-f]{64})\.duckdb$/

/**
 * Returns a directory for files that can be made again at any time: the one that holds Node's compile cache.
 * @returns null if it is missing, or other users can write to it.
 */
export function cacheDirectory(): string | null {
  const compiled = getCompileCacheDir()
  if (compiled === undefined) return null
  const directory = dirname(compiled)
  const about = lstatSync(directory, { throwIfNoEntry: false })
  if (!about?.isDirectory()) return null
  const isOurs = about.uid === (process.geteuid?.() ?? about.uid)
  return isOurs && excess(about.mode, LAKE_DIRECTORY) === 0 ? directory : null
}

/**
 * Returns a catalog of no snapshot, in this user's cache directory. A first publish copies its marts, at a tenth of the cost of
 * creating them. It has no name or path of a company.
 * @param db any database; it is unchanged afterwards.
 * @param hash the `catalogHash` of this time zone.
 * @returns null if there is no cache directory, or it cannot be used.
 */
export async function catalogTemplate(
  db: Database,
  { sourceTimezone, hash }: { sourceTimezone: string; hash: string },
  directory = cacheDirectory(),
): Promise<CatalogFile | null> {
  if (directory === null) return null
  const key = templateKey(hash)
  try {
    return (await find(directory, key)) ?? (await make(db, directory, { key, sourceTimezone }))
  } catch {
    // A full or read-only disk, for example: the marts are then created without a template.
    return null
  }
}

/** Covers everything that shapes a template. */
function templateKey(catalogHash: string): string {
  const types = TABLES.map(table => [
    table.name,
    publishedColumns(table).map(({ name, type }) => [name, type]),
  ])
  return hashOf(JSON.stringify([version(), catalogHash, types]))
}

/** Finds a template. The hash of the content is in the name, so a damaged template is not used. */
async function find(directory: string, wanted: string): Promise<CatalogFile | null> {
  for (const name of await readdir(directory)) {
    const [, key, sha256] = NAME.exec(name) ?? []
    if (key !== wanted || sha256 === undefined) continue
    const path = join(directory, name)
    if ((await digestOf(path)).sha256 === sha256) return { path, sha256 }
    await dropPath(path)
  }
  return null
}

async function make(
  db: Database,
  directory: string,
  about: { key: string; sourceTimezone: string },
): Promise<CatalogFile> {
  const temporary = join(directory, `catalog-${process.pid}-${randomBytes(6).toString('hex')}.part`)
  try {
    await writeTemplate(db, temporary, about.sourceTimezone)
    const { sha256 } = await digestOf(temporary)
    const path = join(directory, `catalog-${about.key}-${sha256}.duckdb`)
    await movePath(temporary, path)
    return { path, sha256 }
  } finally {
    await dropPath(temporary)
  }
}
