import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readSettings } from '#config/settings.ts'
import { listSegmentNumbers, readBase, segmentPath } from '#src/core/rawlog/files.ts'
import { countMissingFiles, listCheckpoints } from '#src/extras/shared_log/checkpoints.ts'
import { openS3 } from '#src/lib/objects/s3.ts'
import { assertHolds } from '../assertions.ts'
import * as oracle from '../oracle.ts'
import { readStored } from '../stored.ts'
import { type Host, type HostRun, type HostsPlay, LOG } from './play.ts'

/** I14: segments have one winner each, no gap, and never change. */
export async function checkLog({ s3, sealed }: HostsPlay): Promise<void> {
  const keys = [...s3.objects.keys()].filter(key => key.startsWith(LOG)).sort()
  for (const [index, key] of keys.entries()) {
    const number = Number(key.slice(LOG.length, LOG.length + 9))
    assertHolds(number === index + 1, () => `I14: segment ${index + 1} is missing before ${key}`)
    const bytes = s3.objects.get(key)?.bytes as Buffer
    assertHolds(sealed.get(key)?.equals(bytes) ?? true, () => `I14: ${key} was replaced`)
    sealed.set(key, bytes)
  }
  assertHolds(keys.length === sealed.size, () => 'I14: a sealed segment has disappeared')
}

/** I14: every segment of a disk is the one in the store. */
export async function checkDisk({ sealed }: HostsPlay, { name, paths }: Host): Promise<void> {
  for (const number of await listSegmentNumbers(paths.raw)) {
    const there = sealed.get(keyOf(number))
    const here = await readFile(segmentPath(paths.raw, number))
    assertHolds(
      there?.equals(here) === true,
      () => `I14: ${name} has another segment ${number} than the store`,
    )
  }
  const { segments } = await readBase(paths.raw)
  assertHolds(segments <= sealed.size, () => `I14: ${name} was restored with more than what is sealed`)
}

function keyOf(number: number): string {
  return `${LOG}${String(number).padStart(9, '0')}.ndjson.zst`
}

/** I14: what was sealed before a run, or while it stood still, is not requested again. */
export function checkAsked(
  { asked, askedAgain, wasPaused, host }: HostRun,
  sealed: ReadonlySet<string>,
): void {
  const again = wasPaused ? askedAgain[0] : asked.find(one => sealed.has(one))
  assertHolds(again === undefined, () => `I14: ${host.name} requested ${again} again, which is sealed`)
}

/** After a run that lost nothing, the host's lake is what the company has. */
export async function checkNow({ company }: HostsPlay, { paths }: Host): Promise<void> {
  oracle.checkTruth(await readStored(paths), company.world, {
    isExcluded: () => false,
    silentChangesSeen: true,
  })
}

/** Every checkpoint that is listed has all of its files. */
export async function checkCheckpoints({ hosts }: HostsPlay): Promise<number> {
  const { remoteLog } = readSettings((hosts[0] as Host).environment)
  const store = await openS3(remoteLog as NonNullable<typeof remoteLog>)
  try {
    const names = await listCheckpoints(store, 'acme')
    for (const name of names)
      assertHolds(
        (await countMissingFiles(store, 'acme', name)) === 0,
        () => `I14: ${name.key} names a file that is missing`,
      )
    return names.length
  } finally {
    store.close()
  }
}

export function warehouseOf({ paths }: Host): string {
  return join(paths.root, 'warehouse.duckdb')
}
