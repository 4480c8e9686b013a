import { existsSync } from 'node:fs'
import { cp, glob, readFile, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { TABLES } from '#schema/tables.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { decodeManifest, decodeManifestList, STATUS } from '#src/extras/object_store/iceberg/manifests.ts'
import type { Latest } from '#src/extras/object_store/tables/format.ts'
import { hashContent } from '#src/lib/hash.ts'
import { CATALOG } from '#src/marts/marts.ts'
import { startCatalog } from '#tools/iceberg_catalog.ts'
import { BUCKET, type S3Server, startS3, writeCredentials } from '#tools/s3_server.ts'
import { notices } from './notices.ts'
import { companyDirectory, type Environment, temporaryDirectory } from './project.ts'
import { runShared } from './shared.ts'
import { startCompany } from './synced.ts'
import { inWorkerDatabase } from './worker_database.ts'

/** A company whose lake goes to an object store in memory, and what is there. */

export const ROOT = `s3://${BUCKET}/bi`
/** Keys of objects below the company's tables begin with it. */
export const LAKE = 'bi/acme/lake'
/** Every table and mart. */
export const PUBLISHED = CATALOG.map(({ name }) => name).filter(name => name !== 'snapshot_info')

const ID = 'AKIATESTTESTTEST'
export const SECRET = 'wJalrXUtnFEMI-of-this-test'

/** Before its first run. */
export async function startRemote(settings: Environment = {}) {
  const s3 = await startS3()
  onTestFinished(() => s3.close())
  const company = await startCompany(notices(1, 12), {
    LAKE_URL: ROOT,
    S3_ENDPOINT: s3.url,
    S3_CREDENTIALS_FILE: await writeCredentials(join(await temporaryDirectory(), 'key'), ID, SECRET),
    ...settings,
  })
  const lake = (...args: string[]) => runShared(['lake', ...args], company.environment)
  return { ...company, s3, lake }
}

/** … whose tables a catalog keeps. */
export async function startRemoteWithCatalog(settings: Environment = {}) {
  let s3: S3Server | null = null
  const catalog = await startCatalog(address => {
    return s3?.objects.has(address.slice(`s3://${BUCKET}/`.length)) === true
  })
  onTestFinished(() => catalog.close())
  const company = await startRemote({
    ICEBERG_CATALOG_URI: catalog.uri,
    ICEBERG_WAREHOUSE: 'bi',
    ...settings,
  })
  s3 = company.s3
  return { ...company, catalog }
}

/** @param key below the company's tables. */
export function bytesAt(s3: S3Server, key: string): Buffer {
  const stored = s3.objects.get(`${LAKE}/${key}`)
  if (!stored) throw new Error(`${key} is not there`)
  return stored.bytes
}

/** The store loses or refuses some first uploads of each kind. */
export function loseAnswers(s3: S3Server): void {
  const seen = new Map<string, number>()
  s3.fault = ({ method, key }) => {
    const count = (seen.get(`${method} ${key}`) ?? 0) + 1
    seen.set(`${method} ${key}`, count)
    if (method !== 'PUT' || count > 1 || !/latest|editais|funil/.test(key)) return null
    const faults = ['lose', 409, 503, null] as const
    return faults[seen.size % faults.length] ?? null
  }
}

export function latestOf(s3: S3Server): Latest {
  return JSON.parse(bytesAt(s3, 'latest.json').toString()) as Latest
}

/** The name of the local lake's latest snapshot. */
export async function latestLocal(environment: Environment): Promise<string> {
  return (await realpath(join(companyDirectory(environment), 'lake/latest'))).split('/').at(-1) as string
}

/** Below the company's tables. */
const keyOf = (uri: string) => uri.slice(`s3://${BUCKET}/${LAKE}/`.length)

/** The files of an Iceberg table's snapshot, as a reader finds them. */
export async function filesOfList(s3: S3Server, manifestList: string): Promise<Named[]> {
  const read = (uri: string) => bytesAt(s3, keyOf(uri))
  const lists = await decodeManifestList(read(manifestList))
  const entries = await Promise.all(lists.map(list => decodeManifest(read(list.manifest_path))))
  const files = entries.flat().filter(({ status }) => status !== STATUS.deleted)
  return files.map(({ data_file }) => ({ key: keyOf(data_file.file_path), rows: data_file.record_count }))
}

/** Keeps the marts of the published snapshot, for comparisons after the next publish. */
export async function rememberMarts(environment: Environment, snapshot: string): Promise<void> {
  const company = companyDirectory(environment)
  const own = join(company, 'lake/snapshots', snapshot, 'marts')
  await cp(join(company, 'remote_marts', snapshot, 'marts'), own, { recursive: true })
}

/** A data file, as the metadata of a table names it. */
export type Named = { readonly key: string; readonly rows: number }

/**
 * Every table there has exactly the files of the local snapshot, byte for byte, and names as many rows as they have.
 * @param filesOf the files that the table has in this snapshot, as a reader finds them.
 */
export async function expectSameFiles(
  s3: S3Server,
  { environment, snapshot }: { readonly environment: Environment; readonly snapshot: string },
  filesOf: (table: string) => Promise<readonly Named[]>,
): Promise<void> {
  const company = companyDirectory(environment)
  const local = join(company, 'lake/snapshots', snapshot)
  const marts = existsSync(join(local, 'marts')) ? local : join(company, 'remote_marts', snapshot)
  for (const name of PUBLISHED) {
    const isTable = TABLES.some(table => table.name === name)
    const own = isTable ? join(local, name, '*.parquet') : join(marts, `marts/${name}.parquet`)
    const [files, paths] = await Promise.all([filesOf(name), Array.fromAsync(glob(own))])
    const hashes = await Promise.all(paths.map(async path => hashContent(await readFile(path))))
    expect([name, files.map(({ key }) => hashContent(bytesAt(s3, key))).sort()]).toEqual([
      name,
      hashes.sort(),
    ])
    const { rows } = await inWorkerDatabase(db =>
      db.row<{ rows: number }>(
        `SELECT count(*)::INTEGER AS rows FROM read_parquet(${literal(own)}, hive_partitioning = false)`,
      ),
    )
    expect([name, files.reduce((sum, file) => sum + file.rows, 0)]).toEqual([name, rows])
  }
}
