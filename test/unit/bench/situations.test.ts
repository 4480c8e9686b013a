import { describe, expect, it } from 'vitest'
import { type Figure, judge } from '../../../bench/frame/figures.ts'
import { overlaps } from '../../../bench/processes/worker.ts'
import { figuresOf as figuresOfBi, type Measured as MeasuredBi } from '../../../bench/situations/bi.ts'
import { figuresOf, lateFigures } from '../../../bench/sync/figures.ts'
import type { FullRun, Measured } from '../../../bench/sync/measure.ts'

const missedIn = (figures: Figure[]) => judge(figures).filter(({ met }) => !met)

describe('The bars of a sync', () => {
  const cost = { wallSeconds: 0, cpuSeconds: 0, peakRssBytes: 0 }
  const asked = {
    list: { requests: 1, firstMs: 0, lastMs: 0 },
    analysis: { requests: 0, firstMs: 0, lastMs: 0 },
  }
  const run = { ...cost, asked, snapshotsWritten: 0, startedMs: 0, endedMs: 0, report: {} }
  const one = { ...run, wallSeconds: 1, cpuSeconds: 1 }
  const changing = (requests: number) => ({ ...one, asked: { ...asked, analysis: { requests } } })
  const full = {
    ...run,
    wallSeconds: 0.5,
    loopDelayMs: 0,
    threads: null,
    apiCpuSeconds: 0,
  }
  const measured = {
    ...{ full, unchanged: one, changed: changing(100), first: run, status: cost },
    ...{ scriptFull: one, scriptUnchanged: one, scriptChanged: one, scriptFirst: cost },
  }
  type Changes = { readonly [K in keyof typeof measured]?: object }
  const about = { notices: 20_000, first: null }
  const missed = (changes: Changes, given: Partial<Parameters<typeof figuresOf>[1]> = {}) => {
    const pairs = Object.entries(measured).map(([name, found]) => [
      name,
      { ...found, ...changes[name as keyof Changes] },
    ])
    const figures = figuresOf(Object.fromEntries(pairs) as unknown as Measured, { ...about, ...given })
    return missedIn(figures)
  }

  it('are missed beyond their limit, and met at it', () => {
    expect(missed({ full: { cpuSeconds: 1.15, wallSeconds: 1.1, peakRssBytes: 600e6 } })).toEqual([])
    expect(missed({ full: { cpuSeconds: 1.16 } })).toMatchObject([
      { what: 'full sync: CPU / script', value: 1.16, limit: 1.15 },
    ])
    const beyond = {
      full: {
        wallSeconds: 1.11,
        peakRssBytes: 601e6,
        loopDelayMs: 21,
        endedMs: 200,
      },
      unchanged: { cpuSeconds: 1.01, peakRssBytes: 201e6, snapshotsWritten: 1 },
      changed: { cpuSeconds: 2.1 },
      first: { cpuSeconds: 0.61 },
      status: { cpuSeconds: 0.26 },
    }
    expect(missed(beyond).map(({ limit }) => limit)).toEqual([600, 15, 20, 1.1, 200, 0, 1, 1.2, 2, 0.6, 0.25])
  })

  it('compare with the script only companies that take longer than the start', () => {
    const slow = { full: { cpuSeconds: 9 }, unchanged: { cpuSeconds: 9 } }
    expect(missed(slow, { notices: 4999 })).toEqual([])
    expect(missed(slow, { notices: 5000 })).toHaveLength(2)
  })

  it('compare the memory of a larger company with that of the first one', () => {
    const growth = (megabytes: number) =>
      missed(
        { full: { peakRssBytes: megabytes * 1e6 } },
        { notices: 60_000, first: { notices: 20_000, rssMegabytes: 1000, changedCpuSeconds: 1 } },
      )
    expect(growth(1150)).toEqual([])
    expect(growth(1151)).toMatchObject([{ what: 'full sync: peak RSS above that at 20000, %', limit: 15 }])
  })

  it('are stated for some sizes of a company and of its changes, and for how they grow', () => {
    const missedWith = (cpuSeconds: number, count: number, given: Parameters<typeof missed>[1]) =>
      missed({ changed: { ...changing(count), cpuSeconds } }, given).map(({ limit }) => limit)
    expect([missedWith(0.41, 3, { notices: 400 }), missedWith(9, 4, { notices: 400 })]).toEqual([[0.4], []])
    const first = { notices: 20_000, rssMegabytes: 1000, changedCpuSeconds: 1 }
    const grown = [1.5, 1.51].map(cpuSeconds => missedWith(cpuSeconds, 100, { notices: 100_000, first }))
    expect(grown).toEqual([[], [1.5]])
  })

  it('are others if the API is late', () => {
    const fetching = (requests: number, endedMs = 1050) => {
      const late = { ...full, wallSeconds: 0.9, endedMs, report: { loaded: 1, bytes_fetched: 1 } }
      const analysis = { requests, firstMs: 0, lastMs: 1000 }
      const run = { ...late, asked: { ...asked, analysis } } as unknown as FullRun
      return missedIn(lateFigures(run, one, { notices: 5000, latency: 50 })).map(({ limit }) => limit)
    }
    expect(fetching(288, 1045)).toEqual([])
    expect(fetching(287, 1046)).toEqual([5, 90])
  })

  it('count the requests and snapshots of a run that finds nothing', () => {
    const list = { ...asked.list, requests: 104 }
    expect(missed({ unchanged: { asked: { ...asked, list } } })).toMatchObject([{ value: 104, limit: 102 }])
    const analysis = { ...asked.analysis, requests: 1 }
    expect(missed({ unchanged: { asked: { ...asked, analysis } } })).toMatchObject([{ value: 1, limit: 0 }])
  })
})

describe('The bars of readers', () => {
  const mart = { rows: 1, openMs: 1, firstMs: 999, warmMs: 200, peakRssBytes: 1 }
  const measured: MeasuredBi = {
    ...{ notices: 20_000, changes: 1, marts: { orgaos: mart } },
    written: { snapshotBytes: 100, bytes: 20 },
    report: { wallSeconds: 5, bytes: 2e6 },
  }
  const missed = (changes: Partial<MeasuredBi>) => missedIn(figuresOfBi({ ...measured, ...changes }))
  const written = { ...measured.written, bytes: 21 }

  it('are met at their limit, and missed beyond it', () => {
    expect(missed({})).toEqual([])
    const beyond = { report: { wallSeconds: 5.1, bytes: 2.1e6 }, marts: { orgaos: { ...mart, warmMs: 201 } } }
    expect(missed(beyond).map(({ limit }) => limit)).toEqual([5, 2, 200])
    expect(missed({ written })).toMatchObject([{ what: 'written for it, %', value: 21, limit: 20 }])
  })

  it('apply only to sizes for which they are meaningful', () => {
    expect(missed({ written, notices: 30 })).toEqual([])
    expect(missed({ written, notices: 60_000, marts: { orgaos: { ...mart, warmMs: 999 } } })).toHaveLength(1)
  })
})

it('Runs overlap if one begins before the previous run of its company has ended', () => {
  const run = (company: string, from: number, to: number) => ({
    company,
    started_at: new Date(from).toISOString(),
    finished_at: new Date(to).toISOString(),
  })
  expect(overlaps([run('a', 9, 12), run('a', 0, 9), run('b', 1, 3), run('b', 3, 4)])).toBe(0)
  expect(overlaps([run('a', 0, 9), run('b', 1, 3), run('b', 2, 4), run('a', 8, 12)])).toBe(2)
})
