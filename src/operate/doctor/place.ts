import { constants, type Stats } from 'node:fs'
import { access, lstat, readdir, readFile, stat, statfs } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { LakeSettings } from '#config/lake.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { isOursAlone, listOurFiles } from '#src/core/company/data_directory.ts'
import { latestLink, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { type Finding, ok, problem, warning } from '#src/extras/extra.ts'
import {
  findExcess,
  formatMode,
  isTrusted,
  LAKE_DIRECTORY,
  PASSED_DIRECTORY,
  PRIVATE_DIRECTORY,
  PRIVATE_FILE,
} from '#src/lib/access.ts'
import { findSystemCode } from '#src/lib/errors.ts'
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
    const code = await access(path, mode).then(() => null, findSystemCode)
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
    const text = await readTextIfThere(path)
    if (text === null || isJson(text)) continue
    findings.push(warning('notes', path, 'is not valid JSON: the next run writes it again'))
  }
  if ((await readTextIfThere(paths.id))?.trim() === '') {
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
async function readTextIfThere(path: string): Promise<string | null> {
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

const PRIVACY = 'privacy'
const NEXT_RUN = 'The next run corrects its mode'
const EVERYTHING = 0o777
const WRITE = 0o022
const STICKY = 0o1000

type PrivacyOptions = { readonly paths: CompanyPaths; readonly lake: LakeSettings }

/** Finds what other users of the machine can open, list or replace beyond what the settings allow (invariant I11). */
export async function checkPrivacy({ paths, lake }: PrivacyOptions): Promise<Finding[]> {
  const { root } = paths
  const dataDir = dirname(root)
  const isEntered = await canBePassed(dataDir)
  const isReached = isEntered && (await canBePassed(root))
  const findings = [
    ...(await checkDataDirectory(dataDir)),
    ...(await checkPaths([[root, PASSED_DIRECTORY], ...listOurFiles(dataDir)], isEntered)),
    ...(await checkPaths(await privatePaths(paths), isReached)),
    ...(await checkPaths(await listDirectories(paths.lake, lake), isReached)),
    ...(await checkReaders(paths, lake)),
  ]
  if (findings.length > 0) return findings
  return [ok(PRIVACY, root, 'Other users can open only what LAKE_READERS allows')]
}

/** A path, and the most permissive mode that it may have. */
type Allowed = readonly [path: string, mode: number]

async function privatePaths({ root, raw, rows, temporary, mirror }: CompanyPaths): Promise<Allowed[]> {
  const entries = await readdir(root, { withFileTypes: true })
  const directories = [raw, rows, temporary, mirror]
  const files = entries.filter(entry => !entry.isDirectory()).map(({ name }) => join(root, name))
  return [
    ...directories.map(path => [path, PRIVATE_DIRECTORY] as const),
    ...files.filter(path => !directories.includes(path)).map(path => [path, PRIVATE_FILE] as const),
  ]
}

async function listDirectories(lake: string, { mode }: LakeSettings): Promise<Allowed[]> {
  const snapshots = snapshotsDirectory(lake)
  const names = await readdir(snapshots).catch(() => [] as string[])
  const all = [lake, snapshots, ...names.map(name => join(snapshots, name))]
  return all.map(path => [path, mode ?? LAKE_DIRECTORY] as const)
}

/** Returns whether other users can enter a directory. If they cannot, the modes below it do not matter. */
async function canBePassed(directory: string): Promise<boolean> {
  return ((await stat(directory)).mode & PASSED_DIRECTORY & ~PRIVATE_DIRECTORY) !== 0
}

async function checkPaths(paths: readonly Allowed[], isReached: boolean): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const [path, allowed] of paths) {
    const about = await lstat(path).catch(() => null)
    if (about !== null) findings.push(...(await checkPath(path, about, isReached ? allowed : EVERYTHING)))
  }
  return findings
}

async function checkPath(path: string, about: Stats, allowed: number): Promise<Finding[]> {
  const isLink = about.isSymbolicLink()
  if (!isTrusted(path, about)) {
    const what = isLink ? 'is a link made by' : 'belongs to'
    const mend = isLink
      ? `rm ${quoteForShell(path)}`
      : `chown ${process.geteuid?.()} ${quoteForShell(path)}, as root`
    return [problem(PRIVACY, path, `${what} another user (id ${about.uid}), who can change it`, mend)]
  }
  const target = isLink ? await stat(path).catch(() => null) : about
  if (target === null || findExcess(target.mode, allowed) === 0) return []
  const what = `can be ${describeOwner(target)} by other users (${formatMode(target.mode)})`
  const wanted = formatMode(target.mode & allowed)
  if (!isLink && mayChange(target) && (target.isDirectory() || target.nlink === 1))
    return [warning(PRIVACY, path, what, NEXT_RUN)]
  return [
    problem(
      PRIVACY,
      path,
      what,
      `chmod ${wanted} ${quoteForShell(path)}${mayChange(target) ? '' : ', as its owner'}`,
    ),
  ]
}

function describeOwner(about: Stats): string {
  const writes = (about.mode & WRITE) !== 0
  if (about.isDirectory()) return writes ? 'changed' : 'listed'
  return writes ? 'changed' : 'read'
}

function mayChange({ uid }: Stats): boolean {
  return uid === process.geteuid?.() || process.geteuid?.() === 0
}

async function checkDataDirectory(dataDir: string): Promise<Finding[]> {
  const about = await stat(dataDir)
  if (findExcess(about.mode, PASSED_DIRECTORY) === 0) return []
  if (isOursAlone(dataDir)) return await checkPath(dataDir, about, PASSED_DIRECTORY)
  // Listing it shows only names of companies, and other programs use it too.
  if ((about.mode & WRITE) === 0) return []
  const can =
    (about.mode & STICKY) === 0 ? 'replace every company in it' : 'create files in it under our names'
  const what = `is shared with other programs: other users can ${can} (${formatMode(about.mode)})`
  return [
    problem(PRIVACY, dataDir, what, 'Move the companies to a separate directory, and set DATA_DIR to it'),
  ]
}

/** Checks that users who may read the lake by the settings can reach it. */
async function checkReaders({ root, lake }: CompanyPaths, { mode, group }: LakeSettings): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const path of group === null ? [] : [root, lake]) {
    const gid = await stat(path).then(
      about => about.gid,
      () => group,
    )
    if (gid === group) continue
    const what = `belongs to the group with id ${gid}, not to that of LAKE_READERS (${group})`
    findings.push(warning(PRIVACY, path, what, 'The next run changes its group'))
  }
  const open = (mode ?? 0) & PASSED_DIRECTORY & ~PRIVATE_DIRECTORY
  for (const path of [dirname(root), root]) {
    const about = await stat(path)
    if ((about.mode & open) === open) continue
    const what = `cannot be entered by users who may read the lake (mode ${formatMode(about.mode)}; LAKE_READERS gives the lake ${formatMode(mode ?? 0)})`
    const mend = `The next run corrects its mode, or run chmod ${formatMode(about.mode | open)} ${quoteForShell(path)}`
    findings.push(warning(PRIVACY, path, what, mend))
  }
  return findings
}
