import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TEXT_MACROS } from '#schema/text_key.ts'
import { type CatalogSource, createRelations, hashCatalog, type Marts } from '#src/core/lake/catalog.ts'
import { requireLatest } from '#src/core/lake/manifest.ts'
import { makeSource, openManifest, readLatestSources } from '#src/core/lake/read.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import type { Mart } from './columns.ts'
import { MARTS } from './marts.ts'

/** The functions that marts use: `macros/<name>.sql`. */
const MACROS = [
  { name: 'agora', parameters: '' },
  { name: 'soma', parameters: 'valor' },
  { name: 'valor_suspeito', parameters: 'valor' },
  { name: 'teto_dos_itens', parameters: 'do_edital' },
  { name: 'item_suspeito', parameters: 'valor, teto' },
  { name: 'unidade_comparavel', parameters: 'unidade' },
  { name: 'itens_repetidos', parameters: '' },
  { name: 'faixa_comparavel', parameters: 'editais, percentis' },
  { name: 'versoes_seguidas', parameters: '' },
  { name: 'sessao_por_vir', parameters: 'sessao, agora' },
  { name: 'dias_ate_prazo', parameters: 'dia, comecou, hoje' },
  { name: 'curto', parameters: 'texto, maximo' },
  { name: 'com_republicacao', parameters: 'texto, numero' },
  { name: 'nome_do_edital', parameters: 'orgao, numero' },
  { name: 'semanas', parameters: 'primeira, ultima' },
  { name: 'desde_a_mudanca', parameters: 'texto, outro' },
  { name: 'dia_e_hora', parameters: 'momento' },
  { name: 'em_reais', parameters: 'valor' },
] as const

let marts: Promise<Marts> | null = null

/** Returns the marts as catalogs need them; their files are read once. */
export function loadMarts(): Promise<Marts> {
  marts ??= readFiles()
  return marts
}

async function readFiles(): Promise<Marts> {
  const files = MACROS.map(async macro => ({ ...macro, sql: await read(`macros/${macro.name}`) }))
  const macros = [...TEXT_MACROS, ...(await Promise.all(files))]
  return {
    macros: macros.map(({ name, parameters, sql }) => `CREATE MACRO ${name}(${parameters}) AS ${sql}`),
    views: await Promise.all(MARTS.map(async mart => ({ ...mart, sql: await readMartSql(mart) }))),
  }
}

/** Returns the SQL of a mart: one SELECT. */
export async function readMartSql({ name, sql }: Mart): Promise<string> {
  return sql ?? (await read(name))
}

async function read(name: string): Promise<string> {
  return await readFile(join(import.meta.dirname, `${name}.sql`), 'utf8')
}

/**
 * Opens the latest snapshot with the marts of this version of the program, even if another one wrote it: otherwise what
 * asks them would fail after an upgrade, until the next run.
 * @throws FatalError if nothing was published yet, or tables of the snapshot lack columns.
 */
export async function openWithOurMarts(
  lake: string,
  temporaryDirectory = tmpdir(),
): Promise<{ db: Database; sources: readonly CatalogSource[] }> {
  const manifest = await requireLatest(lake)
  if (manifest.catalog_hash === hashCatalog(manifest.source_timezone, await loadMarts()))
    return { db: await openManifest(manifest, temporaryDirectory), sources: [makeSource(manifest)] }
  return await openSnapshots([lake], temporaryDirectory)
}

/**
 * Opens the latest snapshots of several companies as one database, without companies that have none.
 * @throws FatalError if no company has a snapshot.
 */
export async function openSnapshots(
  lakes: readonly string[],
  temporaryDirectory = tmpdir(),
): Promise<{ db: Database; sources: readonly CatalogSource[] }> {
  const [sources, marts] = [await readLatestSources(lakes), await loadMarts()]
  const db = await Database.open(':memory:', { temporaryDirectory })
  try {
    await db.transaction(() => createRelations(db, sources, marts))
    return { db, sources }
  } catch (error) {
    db.close()
    throw error
  }
}

/** Has the marts of an open snapshot count days from this moment, not from the clock: then the same data give the same rows. */
export async function countDaysFrom(db: Database, moment: Date): Promise<void> {
  await db.run(`SET VARIABLE editais_agora = ${literal(moment.toISOString())}::TIMESTAMPTZ`)
}
