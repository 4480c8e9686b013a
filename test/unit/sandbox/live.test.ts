import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { analysis, notice } from '#schema/zod.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { findLevelViolations } from '#src/sandbox/generate_analysis.ts'
import { CHANGES, type Change, startLiving, tick } from '#src/sandbox/live.ts'
import { createRandom } from '#src/sandbox/random.ts'
import type { World } from '#src/sandbox/world.ts'
import { START } from '#test/support/sandbox.ts'

function lived(
  seed: number,
  ticks: number,
  each: (change: Change, world: World, now: Date) => void = () => {},
) {
  const world = generateWorld({ seed, company: 'aurora', notices: 150, start: START })
  const random = createRandom(seed)
  for (let number = 1; number <= ticks; number += 1) {
    const now = new Date(START.getTime() + number * 3_600_000)
    for (const change of tick(world, random, now)) each(change, world, now)
  }
  return world
}

function documents(world: World) {
  return world.ids().flatMap(id => world.entry(id) ?? [])
}

describe('a living world', () => {
  test('stays within the contract and its level rules, whatever happens', () => {
    const world = lived(11, 250)
    const faults = documents(world).flatMap(entry => [
      ...(notice.safeParse(entry.edital).error?.issues ?? []),
      ...(analysis.safeParse(entry.analysis).error?.issues ?? []),
      ...findLevelViolations(entry.analysis ?? {}),
      ...(entry.analysis?.status === entry.edital.status ? [] : ['phases differ']),
    ])
    expect(faults).toEqual([])
  })

  test('has every kind of change', () => {
    const seen = new Map<string, number>()
    lived(12, 250, ({ what }) => void seen.set(what, (seen.get(what) ?? 0) + 1))
    expect(new Set(seen.keys())).toEqual(new Set(CHANGES))
    expect(seen.get('vanished') ?? 0).toBeLessThan(seen.get('arrived') ?? 0)
  })

  test('moves updated_at with every change but a silent one', () => {
    const lastChange = new Map<string, Change['what']>()
    const updated = new Map<string, string>()
    lived(13, 120, ({ what, id }, world, now) => {
      const text = world.entry(id)?.edital.updated_at
      if (['advanced', 'deepened', 'discarded', 'expired'].includes(what))
        expect(text).toBe(now.toISOString())
      if (what === 'silently_changed' && updated.has(id)) expect(text).toBe(updated.get(id))
      if (text !== undefined) updated.set(id, text)
      lastChange.set(id, what)
    })
    expect(lastChange.size).toBeGreaterThan(50)
  })

  test('confirms participation when a notice becomes ready, and gives a reason when it is discarded', () => {
    let ready = 0
    lived(14, 200, ({ what, id }, world) => {
      const edital = world.entry(id)?.edital
      if (what === 'advanced' && edital?.status === 'ready') {
        ready += 1
        expect(edital).toMatchObject({ participation_confirmed: true, committed_at: expect.any(String) })
        expect(world.entry(id)?.analysis).toMatchObject({ analysis_level: 'deep' })
      }
      if (what === 'discarded') {
        expect(edital).toMatchObject({ participation_confirmed: false, discard_reason: expect.any(String) })
        expect(edital).not.toHaveProperty('committed_at')
      }
    })
    expect(ready).toBeGreaterThan(3)
  })

  test('develops in the same way for the same seed', () => {
    expect(documents(lived(15, 60))).toEqual(documents(lived(15, 60)))
  })

  test('starts and stops', async () => {
    const world = generateWorld({ seed: 1, company: 'aurora', notices: 40, start: START })
    let ticks = 0
    const ticked = Promise.withResolvers<void>()
    const stop = startLiving(world, {
      intervalMs: 2,
      now: () => START,
      onTick: () => {
        ticks += 1
        if (ticks === 5) ticked.resolve()
      },
    })
    onTestFinished(stop)
    await ticked.promise
    stop()
    await sleep(20)
    expect(ticks).toBe(5)
  })
})
