import { mkdir, mkdtemp, rm, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Settings } from '#config/settings.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { WarehouseOptions } from '#src/core/warehouse/warehouse.ts'
import type { CheckOptions } from '#src/extras/extra.ts'
import { type Finding, ok, warning } from '#src/extras/extra.ts'
import { PRIVATE_DIRECTORY } from '#src/lib/access.ts'
import { throwIfInterrupted } from '#src/lib/errors.ts'
import type { LockHolder } from '#src/lib/lock.ts'
import { CALENDAR_YEARS } from '#src/marts/basics.ts'
import { checkExtras } from '#src/operate/extras.ts'
import { checkLake } from './lake.ts'
import { checkPlace, checkPrivacy } from './place.ts'
import { checkRawLog } from './raw_log.ts'
import { checkWarehouse } from './warehouse.ts'

/** Warns in the last year for which holidays were checked: business days of later sessions may be wrong. */
export function checkCalendar(now: Date): Finding {
  const { first, last } = CALENDAR_YEARS
  const about = ['calendar', 'src/marts/feriados.sql'] as const
  if (now.getUTCFullYear() < last) return ok(...about, `Holidays are known from ${first} to ${last}`)
  return warning(
    ...about,
    `has holidays up to ${last}, so last days to contest sessions after that year may be wrong`,
    'Upgrade to a version with a later calendar',
  )
}

/** The output of `doctor --json`. */
export type Diagnosis = {
  readonly company: string
  readonly directory: string
  /** No problems; there may be warnings. */
  readonly well: boolean
  readonly findings: readonly Finding[]
}

type DoctorOptions = Omit<WarehouseOptions, 'onApply'> & {
  /** Skips what takes as long as a rebuild: comparing rows and checking files' checksums. */
  readonly quick: boolean
  readonly settings: Pick<Settings, 'lake' | 'remoteLake' | 'remoteLog'>
  readonly now: Date
  readonly isHeld: boolean
  readonly deadHolder: LockHolder | null
  readonly onProgress: (what: string, done: number, total: number) => void
}

/** Checks the object stores alone, for a host that has nothing of the company yet. Writes nothing on its disk. */
export async function diagnoseStores(options: CheckOptions): Promise<Diagnosis> {
  const { company, root } = options.paths
  const nothing = warning(
    'disk',
    root,
    'does not exist, so only the object store was checked',
    'A run, or `editais restore`, brings there what the store has',
  )
  const findings = [nothing, ...(await checkExtras(options))]
  return { company, directory: root, well: isWell(findings), findings }
}

function isWell(findings: readonly Finding[]): boolean {
  return findings.every(({ status }) => status !== 'problem')
}

/**
 * Checks that a company's directory is consistent: the log in itself, the warehouse with the log, the lake with
 * the warehouse and its manifests, the object store with log and lake. Changes nothing; in the object store it writes
 * small objects, and removes them. The caller holds the company's lock if it can.
 */
export async function diagnose(options: DoctorOptions): Promise<Diagnosis> {
  const { paths, quick, signal, onProgress } = options
  const log = await checkRawLog(paths, (done, total) => {
    throwIfInterrupted(signal)
    onProgress('Read the raw log', done, total)
  })
  const compare = async (scratch: string | null) =>
    await checkWarehouse({
      ...options,
      onApply: ({ done, total }) => onProgress('Rebuild a copy of the warehouse, to compare', done, total),
      examined: log.examined,
      scratch,
    })
  const warehouse = quick ? await compare(null) : await withScratch(paths, compare)
  const lake = await checkLake({
    ...options,
    warehouse: warehouse.state,
    hasLog: log.examined === null || log.examined.length > 0,
    onSnapshot: (done, total) => onProgress('Check the snapshots', done, total),
  })
  const place = await checkPlace({ ...options, snapshotBytes: lake.snapshotBytes })
  const privacy = await checkPrivacy({ ...options, lake: options.settings.lake })
  const extras = await checkExtras(options)
  const findings = [
    ...log.findings,
    ...warehouse.findings,
    ...lake.findings,
    ...place,
    ...privacy,
    ...extras,
    checkCalendar(options.now),
  ]
  return { company: paths.company, directory: paths.root, well: isWell(findings), findings }
}

/** Makes a directory for as long as `use` takes: on the company's disk, or elsewhere if that is not writable. */
async function withScratch<T>(paths: CompanyPaths, use: (directory: string) => Promise<T>): Promise<T> {
  const made = await mkdir(paths.temporary, PRIVATE_DIRECTORY).then(
    () => true,
    () => false,
  )
  const scratch = await mkdtemp(join(paths.temporary, 'doctor-')).catch(() =>
    mkdtemp(join(tmpdir(), 'editais-sync-doctor-')),
  )
  try {
    return await use(scratch)
  } finally {
    await rm(scratch, { recursive: true, force: true })
    if (made) await rmdir(paths.temporary).catch(() => {})
  }
}
