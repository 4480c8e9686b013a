import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { fold } from '#src/operate/fold.ts'
import { FOLD_STEPS, observeSteps } from '#src/platform/durable.ts'
import { makeDirectories } from '#src/store/company.ts'
import { sealedSegments, segmentPath } from '#src/store/rawlog/files.ts'
import { readLines } from '#src/store/rawlog/read.ts'
import { contextHere } from '#test/support/here.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { type SyncedCompany, startCompany, startSynced } from '#test/support/synced.ts'
import { dataTables, type Tables, warehouseTables } from '#test/support/tables.ts'
import { asked, expectTruth } from '#test/support/truth.ts'

const RUNS = 6

/** A company that changes with each run. Notice 1 stays in quarantine; 2 is out of it in the end; 3 comes and goes. */
async function startWithHistory(runs = RUNS): Promise<SyncedCompany> {
  const company = await startCompany(notices(1, 12))
  const { world, faults } = company
  for (let run = 1; run <= runs; run += 1) {
    const ids = run < runs ? [idOf(1), idOf(2)] : [idOf(1)]
    faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids }]
    const updatedAt = new Date(Date.parse('2026-11-20T12:00:00Z') + run * 60_000)
    for (const n of [1, 2, 4, 5])
      world.update(idOf(n), { edital: { objeto: `Objeto ${run}` }, analysis: listsOf(run), updatedAt })
    if (run % 2 === 0) world.remove(idOf(3))
    else if (run > 1) world.restore(idOf(3))
    await company.syncHere(run === 4 ? { full: true } : {})
  }
  faults.plan = []
  return company
}

const listsOf = (run: number) => ({
  alerts: Array.from({ length: run }, () => ({ title: `Alerta de ${run}` })),
})

async function tablesOf(environment: Environment): Promise<Tables> {
  return dataTables(await warehouseTables(environment, ['_segment', '_seq']))
}

async function linesBelow(raw: string): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = []
  for (const number of await sealedSegments(raw))
    for await (const line of readLines(segmentPath(raw, number))) lines.push(JSON.parse(line))
  return lines
}

describe('log fold', () => {
  it('makes the log smaller; the tables stay the same, and a run continues from there', async () => {
    const company = await startWithHistory()
    const { environment, sandbox } = company
    const root = companyDirectory(environment)
    const before = await tablesOf(environment)
    const old = await linesBelow(join(root, 'raw'))

    const { code, stdout } = await runShared(['log', 'fold'], environment)
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(
        /^Folded 19 segments, \d+ kB into 1\d segments, \d+ kB, with the same tables/,
      ),
    })
    expect(await tablesOf(environment)).toEqual(before)
    expect(await linesBelow(join(root, 'raw.before'))).toEqual(old)
    const lines = await linesBelow(join(root, 'raw'))
    const alerts = lines.flatMap(
      ({ analysis }) => (analysis as { alerts?: object[] } | undefined)?.alerts ?? [],
    )
    // Those of the last version of each analysis.
    expect(alerts).toHaveLength(before.alerts?.length ?? -1)
    // One notice is still in quarantine.
    expect(lines.filter(({ type, raw }) => type === 'rejected' && raw !== undefined)).toHaveLength(1)

    expect((await runShared(['doctor'], environment)).stdout).toContain('No problems found.')
    sandbox.requests.reset()
    await company.syncHere()
    expect(asked(company, 'analysis')).toEqual([])
    company.world.update(idOf(7), { edital: { objeto: 'Mudou' }, updatedAt: new Date() })
    await company.syncHere()
    expect(asked(company, 'analysis')).toEqual([idOf(7)])
    await expectTruth(company)
    const after = await tablesOf(environment)
    expect((await runShared(['rebuild'], environment)).code).toBe(0)
    expect(await tablesOf(environment)).toEqual(after)
  })

  it('keeps the bytes of records in quarantine, for replay', async () => {
    const company = await startWithHistory(2)
    const { environment } = company
    await runShared(['log', 'fold'], environment)
    const { code, stdout } = await runShared(['replay'], environment)
    expect(code).toBe(3)
    expect(stdout).toMatch(/1 still quarantined|quarantined 1|1 quarantined/)
  })

  it('can be repeated, once the old log is removed; what cannot be smaller stays as it is', async () => {
    const { environment } = await startWithHistory(3)
    const old = join(companyDirectory(environment), 'raw.before')
    expect((await runShared(['log', 'fold', '--json'], environment)).code).toBe(0)
    const refused = await runShared(['log', 'fold'], environment)
    expect(refused.code).toBe(2)
    expect(refused.stderr).toMatch(/raw\.before is the log as it was before the last fold/)
    await rm(old, { recursive: true })
    const again = await runShared(['log', 'fold', '--json'], environment)
    expect(JSON.parse(again.stdout)).toMatchObject({ old_log: null })
    expect(existsSync(old)).toBe(false)
  })

  it('changes nothing while a run with --full has not fetched everything', async () => {
    const company = await startSynced(notices(1, 4))
    const { environment, faults } = company
    faults.plan = [{ fault: 'status', status: 500, kinds: ['analysis'], ids: [idOf(2)] }]
    await company.syncHere({ full: true })
    const { code, stderr } = await runShared(['log', 'fold'], environment)
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('a run with --full has not fetched everything'),
    })
    expect(await readdir(companyDirectory(environment))).not.toContain('raw.before')
  })

  it.each(
    FOLD_STEPS.filter(step => step !== 'fold.undo').flatMap(
      step =>
        [
          [step, 'before'],
          [step, 'after'],
        ] as const,
    ),
  )('leaves a whole log if it dies at %s (%s)', async (step, moment) => {
    const { environment } = await startWithHistory(2)
    onTestFinished(() => observeSteps(null))
    const before = await tablesOf(environment)
    observeSteps((at, when) => {
      if (at === step && when === moment) throw new Error('died')
    })
    const context = contextHere(environment)
    await makeDirectories(context.paths)
    await expect(fold(context)).rejects.toThrow('died')
    observeSteps(null)
    await makeDirectories(context.paths)
    expect((await sealedSegments(context.paths.raw)).length).toBeGreaterThan(0)
    expect((await runShared(['publish'], environment)).code).toBe(0)
    expect(await tablesOf(environment)).toEqual(before)
  })
})
