import type { Stats } from 'node:fs'
import { lstat, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { LakeSettings } from '#config/lake.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { isOursAlone, ourFiles } from '#src/core/company/data_directory.ts'
import { snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { type Finding, ok, problem, warning } from '#src/extras/extra.ts'
import {
  excess,
  isTrusted,
  LAKE_DIRECTORY,
  octal,
  PASSED_DIRECTORY,
  PRIVATE_DIRECTORY,
  PRIVATE_FILE,
} from '#src/lib/access.ts'
import { quoteForShell } from './place.ts'

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
    ...(await checkPaths([[root, PASSED_DIRECTORY], ...ourFiles(dataDir)], isEntered)),
    ...(await checkPaths(await privatePaths(paths), isReached)),
    ...(await checkPaths(await directoriesOf(paths.lake, lake), isReached)),
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

async function directoriesOf(lake: string, { mode }: LakeSettings): Promise<Allowed[]> {
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
  if (target === null || excess(target.mode, allowed) === 0) return []
  const what = `can be ${actsOf(target)} by other users (${octal(target.mode)})`
  const wanted = octal(target.mode & allowed)
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

function actsOf(about: Stats): string {
  const writes = (about.mode & WRITE) !== 0
  if (about.isDirectory()) return writes ? 'changed' : 'listed'
  return writes ? 'changed' : 'read'
}

function mayChange({ uid }: Stats): boolean {
  return uid === process.geteuid?.() || process.geteuid?.() === 0
}

async function checkDataDirectory(dataDir: string): Promise<Finding[]> {
  const about = await stat(dataDir)
  if (excess(about.mode, PASSED_DIRECTORY) === 0) return []
  if (isOursAlone(dataDir)) return await checkPath(dataDir, about, PASSED_DIRECTORY)
  // Listing it shows only names of companies, and other programs use it too.
  if ((about.mode & WRITE) === 0) return []
  const can =
    (about.mode & STICKY) === 0 ? 'replace every company in it' : 'create files in it under our names'
  const what = `is shared with other programs: other users can ${can} (${octal(about.mode)})`
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
    const what = `cannot be entered by users who may read the lake (mode ${octal(about.mode)}; LAKE_READERS gives the lake ${octal(mode ?? 0)})`
    const mend = `The next run corrects its mode, or run chmod ${octal(about.mode | open)} ${quoteForShell(path)}`
    findings.push(warning(PRIVACY, path, what, mend))
  }
  return findings
}
