import { constants } from 'node:fs'
import { access, readdir, readFile, stat, statfs } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { latestLink, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { type Finding, ok, problem, warning } from '#src/extras/extra.ts'
import { systemCode } from '#src/lib/errors.ts'
import type { LockHolder } from '#src/lib/lock.ts'

/** Times the size of a rebuild and a full snapshot: room for old and new at once, and a day of snapshots. */
const ROOM_FACTOR = 2
export const LEAST_FREE_BYTES = 256 * 1024 * 1024
export const MEBIBYTE = 1024 * 1024

type PlaceOptions = {
  readonly paths: CompanyPaths
  /** The recorded holder of the company, if it no longer holds it. */
  readonly deadHolder: LockHolder | null
  /** False if this user cannot take the lock: a run may change what is being checked. */
  readonly isHeld: boolean
  /** Size of the latest snapshot; 0 if there is none. */
  readonly snapshotBytes: number
}

/** Checks that this user may write there, that there is room, and that no dead process left files behind. */
export async function checkPlace(options: PlaceOptions): Promise<Finding[]> {
  const { paths } = options
  return [
    ...(await checkAccess(paths)),
    ...(await checkSpace(options)),
    ...checkLock(options),
    ...(await checkLeftovers(paths)),
    ...(await checkNotes(paths)),
  ]
}

async function checkAccess(paths: CompanyPaths): Promise<Finding[]> {
  const { root, raw, rows, lake, temporary } = paths
  const directories = [root, raw, rows, lake, snapshotsDirectory(lake), temporary]
  const files = [paths.warehouse, paths.lock, paths.state]
  const all = [
    ...directories.map(path => [path, constants.R_OK | constants.W_OK | constants.X_OK] as const),
    ...files.map(path => [path, constants.R_OK | constants.W_OK] as const),
  ]
  const refused: { path: string; code: string | undefined }[] = []
  for (const [path, mode] of all) {
    const code = await access(path, mode).then(() => null, systemCode)
    // A missing path is not an error: a user who may write its directory creates it.
    if (code !== null && code !== 'ENOENT') refused.push({ path, code })
  }
  const [first, ...others] = refused
  if (!first) return [ok('access', paths.root, 'This user may read and write everything')]
  const owner = (await stat(paths.root)).uid
  const mend =
    first.code === 'EROFS'
      ? 'Mount it writable'
      : `Run as the user with id ${owner}, or change the owner to this user: chown -R ${process.getuid?.()} ${quoteForShell(paths.root)}`
  const more =
    others.length > 0 ? `, and neither can ${others.map(({ path }) => basename(path)).join(', ')}` : ''
  const what = `cannot be read and written by this user (${first.code})${more}`
  return [problem('access', first.path, what, mend)]
}

async function checkSpace({ paths, snapshotBytes }: PlaceOptions): Promise<Finding[]> {
  const disk = await statfs(paths.root)
  const warehouseBytes = await stat(paths.warehouse).then(
    ({ size }) => size,
    () => 0,
  )
  return [
    judgeSpace(paths.root, {
      freeBytes: disk.bavail * disk.bsize,
      onceBytes: warehouseBytes + snapshotBytes,
    }),
  ]
}

/** Judges the free space. @param onceBytes what a rebuild and a full snapshot write. */
export function judgeSpace(
  root: string,
  { freeBytes, onceBytes }: { freeBytes: number; onceBytes: number },
): Finding {
  const wantedBytes = Math.max(LEAST_FREE_BYTES, ROOM_FACTOR * onceBytes)
  const free = `${Math.floor(freeBytes / MEBIBYTE).toLocaleString('en-US')} MiB`
  if (freeBytes >= wantedBytes) return ok('space', root, `${free} free`)
  const wanted = `${Math.ceil(wantedBytes / MEBIBYTE).toLocaleString('en-US')} MiB`
  return warning(
    'space',
    root,
    `has ${free} free on its disk; a rebuild with its snapshot may need ${wanted}`,
    'Free some space. A shorter SNAPSHOT_KEEP and `editais publish` remove old snapshots',
  )
}

function checkLock({ paths, deadHolder, isHeld }: PlaceOptions): Finding[] {
  if (!isHeld) {
    return [
      warning(
        'lock',
        paths.lock,
        'cannot be taken by this user: a run may have changed files during the check',
        'Run the doctor again as the user of the runs',
      ),
    ]
  }
  if (deadHolder === null) return [ok('lock', paths.lock, 'No other process holds the company')]
  const { what, pid, host, since } = deadHolder
  return [
    warning(
      'lock',
      paths.lock,
      `was last taken by ${what} (process ${pid} on ${host}, since ${since}), which died. This is harmless: the lock is free again`,
    ),
  ]
}

async function checkLeftovers(paths: CompanyPaths): Promise<Finding[]> {
  const inTemporary = (await namesIn(paths.temporary)).map(name => join(paths.temporary, name))
  const { state, listIndex, look, metabase, remote } = paths
  const replaced = [latestLink(paths.lake), state, listIndex, look, metabase, remote]
  const there: string[] = []
  for (const path of replaced.map(name => `${name}.part`)) if (await isThere(path)) there.push(path)
  return [...inTemporary, ...there].map(path =>
    warning('leftovers', path, 'was left by a process that died. This is harmless: a later run removes it'),
  )
}

async function checkNotes(paths: CompanyPaths): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const path of [paths.state, paths.metabase, paths.remote]) {
    const text = await textOf(path)
    if (text === null || isJson(text)) continue
    findings.push(warning('notes', path, 'is not valid JSON: the next run writes it again'))
  }
  if ((await textOf(paths.id))?.trim() === '') {
    const what = 'is empty: workers cannot identify this directory'
    findings.push(problem('notes', paths.id, what, `rm ${quoteForShell(paths.id)}`))
  }
  return findings
}

function isJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) === 'object'
  } catch {
    return false
  }
}

/** Returns null if there is no such file, or this user cannot read it. */
async function textOf(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').catch(() => null)
}

async function namesIn(directory: string): Promise<string[]> {
  return await readdir(directory).catch(() => [])
}

async function isThere(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  )
}

/** Quotes a path for a shell, for commands that users copy; ordinary paths stay unquoted. */
export function quoteForShell(path: string): string {
  return /^[\p{L}\p{N}_/.,:@%+=-]+$/u.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
}
