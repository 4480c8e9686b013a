import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listPublishedColumns, TABLES } from '#schema/tables.ts'
import {
  type CatalogFile,
  cacheDirectory,
  findCatalogTemplate,
  hashCatalog,
  writeCatalog,
} from '#src/core/lake/catalog.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import { hashContent } from '#src/lib/hash.ts'
import { VIEWS } from '#src/marts/marts.ts'
import { loadMarts } from '#src/marts/open.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { inWorkerDatabase } from '#test/support/worker_database.ts'

const ZONE = 'America/Sao_Paulo'

/** A snapshot of company `acme` without rows. */
async function makeSnapshot(db: Database) {
  const directory = await temporaryDirectory()
  const files = new Map<
    string,
    { path: string; month: null; rows: number; bytes: number; sha256: string }[]
  >()
  for (const table of TABLES) {
    const path = `${table.name}/empty.parquet`
    await mkdir(join(directory, table.name))
    const columns = listPublishedColumns(table).map(
      ({ name, type }) => `NULL::${type} AS ${identifier(name)}`,
    )
    await db.run(
      `COPY (SELECT ${columns.join(', ')} WHERE false) TO ${literal(join(directory, path))} (FORMAT parquet)`,
    )
    files.set(table.name, [{ path, month: null, rows: 0, bytes: 0, sha256: '' }])
  }
  return {
    ...{ company: 'acme', snapshot: 's1', publishedAt: '2026-01-02T03:04:05Z', sourceTimezone: ZONE },
    ...{ directory, files },
  }
}

async function templateIn(db: Database, sourceTimezone: string, directory: string) {
  const marts = await loadMarts()
  const hash = hashCatalog(sourceTimezone, marts)
  return await findCatalogTemplate(db, { sourceTimezone, hash, marts }, directory)
}

/** DuckDB writes the columns that a view excludes in any order. */
function inOrder(sql: string): string {
  return sql.replace(/EXCLUDE \(([^)]*)\)/g, (_, list: string) => list.split(', ').sort().join(', '))
}

/** Everything that a reader of a catalog finds besides rows. */
async function relationsIn(db: Database, path: string) {
  await db.run(`ATTACH ${literal(path)} AS read (READ_ONLY)`)
  try {
    const ours = "database_name = 'read' AND NOT internal"
    const views = await db.rows<{ view_name: string; sql: string; comment: string }>(
      `SELECT view_name, sql, comment FROM duckdb_views() WHERE ${ours} ORDER BY view_name`,
    )
    return {
      views: views.map(view => ({ ...view, sql: inOrder(view.sql) })),
      columns: await db.rows(
        `SELECT table_name, column_name, column_index, data_type, comment FROM duckdb_columns() WHERE ${ours}
         ORDER BY table_name, column_index`,
      ),
      macros: await db.rows(
        `SELECT function_name, parameters, macro_definition FROM duckdb_functions() WHERE ${ours} ORDER BY ALL`,
      ),
    }
  } finally {
    await db.run('DETACH read')
  }
}

test('a catalog made from a template equals one made without; it names no company, and is made again if damaged', async () => {
  const directory = await temporaryDirectory()
  await inWorkerDatabase(async db => {
    const source = await makeSnapshot(db)
    const template = (await templateIn(db, ZONE, directory)) as CatalogFile
    expect(await templateIn(db, ZONE, directory)).toEqual(template)
    const [copied, created] = [join(directory, 'copied.duckdb'), join(directory, 'created.duckdb')]
    await writeCatalog(db, copied, [source], await loadMarts(), { like: template })
    await writeCatalog(db, created, [source], await loadMarts())
    const relations = await relationsIn(db, copied)
    expect(relations).toEqual(await relationsIn(db, created))
    const named = new Set(relations.columns.map(({ table_name }) => table_name))
    expect([...named].sort()).toEqual([...TABLES, ...VIEWS].map(({ name }) => name).sort())
    expect([...relations.views, ...relations.columns].filter(({ comment }) => !comment)).toEqual([])
    expect(relations.columns).toContainEqual(
      expect.objectContaining({
        table_name: 'editais',
        column_name: 'valor_estimado',
        comment: expect.stringMatching(
          /^Valor estimado: .* \(Estimated value as published; 0 can mean that it is secret \[BRL\]\)$/,
        ),
      }),
    )
    expect((await readFile(template.path)).includes(source.directory)).toBe(false)
    await writeFile(template.path, (await readFile(template.path)).subarray(0, 4096))
    const again = (await templateIn(db, ZONE, directory)) as CatalogFile
    expect(again.sha256).toBe((await templateIn(db, ZONE, directory))?.sha256)
    expect((await readFile(again.path)).length).toBeGreaterThan(4096)
    // Each time zone has its own. Without a directory, no template is made.
    expect(hashCatalog('America/Manaus', await loadMarts())).not.toBe(hashCatalog(ZONE, await loadMarts()))
    expect(await templateIn(db, ZONE, join(directory, 'missing'))).toBeNull()
  })
})

test('a cache directory that others can write to is not used', async () => {
  const directory = cacheDirectory() as string
  expect(directory).toBe(process.env.NODE_COMPILE_CACHE)
  await chmod(directory, 0o777)
  try {
    expect(cacheDirectory()).toBeNull()
  } finally {
    await chmod(directory, 0o755)
  }
})

test('rows of stored marts are copied only if they follow from the same inputs', async () => {
  const directory = await temporaryDirectory()
  await inWorkerDatabase(async db => {
    const source = await makeSnapshot(db)
    const path = join(directory, 'before.duckdb')
    await writeCatalog(db, path, [source], await loadMarts())
    await db.inFile(path, () => db.run("INSERT INTO grafias (company, edital_id) VALUES ('acme', 'e1')"))
    const like = {
      path,
      sha256: hashContent(await readFile(path)),
      inputs: { grafias: 'a', republicacoes: 'a' },
    }
    for (const [inputs, rows] of Object.entries({ a: 1, b: 0 })) {
      const now = { grafias: inputs, republicacoes: 'b' }
      await writeCatalog(db, join(directory, inputs), [source], await loadMarts(), { like, inputs: now })
      const check = async () => expect(await db.rows('FROM grafias')).toHaveLength(rows)
      await db.withFile(join(directory, inputs), check)
    }
  })
})
