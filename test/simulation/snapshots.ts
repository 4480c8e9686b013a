import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { Manifest } from '#src/core/lake/manifest.ts'
import { listSealedSegments } from '#src/core/rawlog/files.ts'
import { assertHolds } from './assertions.ts'

/** I5: hashes of snapshot files when first seen, by path. */
export type Seen = Map<string, string>

/** I5: `latest` resolves to a complete snapshot, or does not exist yet. Cheap, because it runs after each step. */
export function checkLatest({ lake }: Pick<CompanyPaths, 'lake'>, published: boolean): Manifest | null {
  const link = join(lake, 'latest')
  const target = linkTarget(link)
  if (target === null) {
    assertHolds(!published, () => 'I5: the latest snapshot has disappeared')
    return null
  }
  const path = join(lake, target, 'manifest.json')
  assertHolds(existsSync(path), () => `I5: latest points to ${target}, which has no manifest`)
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest
  for (const { files } of Object.values(manifest.tables))
    for (const file of files) {
      const at = join(lake, target, file.path)
      assertHolds(
        existsSync(at) && statSync(at).size === file.bytes,
        () => `I5: ${file.path} of ${target} is missing or has the wrong size`,
      )
    }
  assertHolds(existsSync(join(lake, target, 'catalog.duckdb')), () => `I5: ${target} has no catalog`)
  return manifest
}

/** I5: no file of a finished snapshot differs from its manifest, or from its content when first seen. */
export function checkImmutable({ lake }: CompanyPaths, seen: Seen, powerFailed: boolean): void {
  const directory = join(lake, 'snapshots')
  for (const name of existsSync(directory) ? readdirSync(directory) : []) {
    const path = join(directory, name, 'manifest.json')
    if (!existsSync(path)) continue
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest
    const expected = [
      ...Object.values(manifest.tables).flatMap(({ files }) => files),
      { path: 'catalog.duckdb', sha256: manifest.catalog_sha256 },
    ]
    for (const file of expected) {
      const at = join(directory, name, file.path)
      // The removal of a snapshot starts with its manifest; a power failure may bring that back.
      if (!existsSync(at) && powerFailed) continue
      assertHolds(existsSync(at), () => `I5: ${name}/${file.path} is missing`)
      const hash = createHash('sha256').update(readFileSync(at)).digest('hex')
      assertHolds(hash === file.sha256, () => `I5: ${name}/${file.path} does not match its manifest`)
      assertHolds(
        (seen.get(at) ?? hash) === hash,
        () => `I5: ${name}/${file.path} was changed after it was published`,
      )
      seen.set(at, hash)
      assertHolds((statSync(at).mode & 0o222) === 0, () => `I5: ${name}/${file.path} is writable`)
    }
  }
}

/** I6: no snapshot is ahead of the log. */
export async function checkDurableFirst({ lake, raw }: CompanyPaths, published = false): Promise<void> {
  const manifest = checkLatest({ lake }, published)
  const sealed = (await listSealedSegments(raw)).length
  assertHolds(
    (manifest?.applied_segment ?? 0) <= sealed,
    () => `I6: the snapshot holds segment ${manifest?.applied_segment}, the log ends with ${sealed}`,
  )
}

/** I5: the latest snapshot; a run must keep it even if it publishes a newer one. */
export function latestOf({ lake }: CompanyPaths): string[] {
  const directory = join(lake, 'snapshots')
  const names = existsSync(directory) ? readdirSync(directory) : []
  const manifests = names.flatMap(name => {
    const path = join(directory, name, 'manifest.json')
    return existsSync(path) ? [JSON.parse(readFileSync(path, 'utf8')) as Manifest] : []
  })
  return manifests
    .sort((a, b) => a.applied_segment - b.applied_segment || a.created_at.localeCompare(b.created_at))
    .slice(-1)
    .map(({ snapshot }) => snapshot)
}

function linkTarget(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    return null
  }
}
