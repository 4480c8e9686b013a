import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Manifest, removeExpired } from '#src/core/lake/manifest.ts'
import { observeSteps } from '#src/lib/durable.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const DAY_MS = 24 * 3_600_000

function onDay(day: number): string {
  return new Date(Date.UTC(2026, 10, day, 12)).toISOString()
}

/** Snapshots of these days, in the order in which they were written. */
async function written(...days: readonly number[]) {
  const directory = await temporaryDirectory()
  const manifests = days.map(
    (day, index) => ({ snapshot: `s${index + 1}`, created_at: onDay(day) }) as unknown as Manifest,
  )
  for (const { snapshot } of manifests) {
    await mkdir(join(directory, snapshot))
    await writeFile(join(directory, snapshot, 'manifest.json'), '{}')
    await writeFile(join(directory, snapshot, 'catalog.duckdb'), '')
  }
  return {
    directory,
    /** Names of the snapshots that are left. */
    expire: async (now: number | Date, { keepDays = 7, inUse = [] as (string | null)[] } = {}) => {
      const at = typeof now === 'number' ? new Date(onDay(now)) : now
      const left = await removeExpired(directory, manifests, { keepMs: keepDays * DAY_MS, now: at, inUse })
      const names = left.map(({ snapshot }) => snapshot)
      expect((await readdir(directory)).sort()).toEqual(names)
      return names
    },
  }
}

describe('a snapshot', () => {
  it('expires by when a newer one appeared, not by its own age', async () => {
    // The first was the latest until day 20.
    const { expire } = await written(1, 20, 21, 22)
    expect(await expire(26)).toEqual(['s1', 's2', 's3', 's4'])
    expect(await expire(28)).toEqual(['s2', 's3', 's4'])
  })

  it('stays for exactly as long as it must be kept', async () => {
    const { expire } = await written(1, 2, 3)
    expect(await expire(9)).toEqual(['s1', 's2', 's3'])
    expect(await expire(new Date(Date.parse(onDay(9)) + 1))).toEqual(['s2', 's3'])
  })

  it('stays whatever its age if it is one of the last two', async () => {
    const { expire } = await written(1, 2)
    expect(await expire(30)).toEqual(['s1', 's2'])
  })

  it('stays while it is in use', async () => {
    const { expire } = await written(1, 2, 3, 4)
    expect(await expire(30, { inUse: [null, 's1'] })).toEqual(['s1', 's3', 's4'])
  })

  it('stays if its successor is older by the clock, until its own time is over', async () => {
    const { expire } = await written(20, 5, 6)
    expect(await expire(26)).toEqual(['s1', 's2', 's3'])
    expect(await expire(28)).toEqual(['s2', 's3'])
  })

  it('expires at once if nothing must be kept', async () => {
    const { expire } = await written(1, 2, 3)
    expect(await expire(3, { keepDays: 0 })).toEqual(['s2', 's3'])
  })

  it('loses its manifest first: one that is half removed must not look complete', async () => {
    const { directory, expire } = await written(1, 2, 3)
    const steps: string[] = []
    observeSteps((step, when, operation) => {
      if (when === 'before' && 'path' in operation)
        steps.push(`${step} ${operation.path.slice(directory.length)}`)
    })
    onTestFinished(() => observeSteps(null))
    await expire(30)
    expect(steps).toEqual(['expired.unlist /s1/manifest.json', 'expired.remove /s1'])
  })
})
