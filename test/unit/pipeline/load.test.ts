import { setImmediate } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createLoader, type Loader, PACE } from '#src/core/pipeline/load.ts'
import { workUntimed } from '#src/core/pipeline/request.ts'
import { listSealedSegments } from '#src/core/rawlog/files.ts'
import type { Line } from '#src/core/rawlog/line.ts'
import { RawLogWriter, type Segment, type Unsealed } from '#src/core/rawlog/writer.ts'
import { observeSteps } from '#src/lib/durable.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { openWarehouseCase, STARTED, TIMEZONE } from '#test/support/warehouse.ts'

const RUN: Line = { type: 'run_started', mode: 'full', analysis_statuses: [], company: 'acme' }

function line(number: number): Line {
  return { type: 'notice', edital_id: idOf(number), updated_at: noticeEntry(number).edital.updated_at }
}

function document(number: number, fields = {}): { notice: string } {
  return { notice: JSON.stringify({ ...noticeEntry(number).edital, ...fields }) }
}

/** A loader of a real log into a real warehouse, with a clock that the test sets. */
async function openLoader() {
  const { db, rows, directory } = await openWarehouseCase()
  const clock = { ms: Date.parse(STARTED) }
  const log = new RawLogWriter({ directory, firstNumber: 1, runId: 'r1', now: () => new Date(clock.ms) })
  onTestFinished(() => log.close())
  const loaded: number[] = []
  const loader = createLoader({
    log,
    db,
    rows,
    projection: { sourceTimezone: TIMEZONE, temporaryDirectory: directory },
    onLoaded: documents => loaded.push(documents),
    onApplied: async () => {},
    inStage: workUntimed,
    pace: PACE,
  })
  const stored = async () =>
    (await db.rows<{ id: string }>('SELECT edital_id AS id FROM editais ORDER BY ALL')).map(({ id }) => id)
  return { loader, db, clock, loaded, stored, segments: () => listSealedSegments(directory) }
}

describe('what is logged', () => {
  it('is in the warehouse once it is settled, and not before', async () => {
    const { loader, loaded, stored, segments } = await openLoader()
    await loader.append(RUN)
    await loader.append(line(1), document(1))
    expect(await segments()).toEqual([])
    expect(await stored()).toEqual([])
    await loader.settle()
    // At once: another question to the warehouse would wait for what is being applied.
    expect(loaded).toEqual([1])
    expect(await segments()).toEqual([1])
    expect(await stored()).toEqual([idOf(1)])
  })

  it('is durable before it is in the warehouse', async () => {
    const { loader } = await openLoader()
    const steps: string[] = []
    observeSteps((step, when) => steps.push(`${when} ${step}`))
    onTestFinished(() => observeSteps(null))
    await loader.append(RUN)
    await loader.settle()
    const ofDurable = ['segment.sync', 'segment.rename', 'segment.directory']
    expect(steps).toEqual(
      [...ofDurable, 'applied.commit'].flatMap(step => [`before ${step}`, `after ${step}`]),
    )
  })

  it('becomes one segment after another, in their order', async () => {
    const { loader, db, stored, segments } = await openLoader()
    await loader.append(RUN)
    await loader.settle()
    await loader.append(line(1), document(1))
    await loader.settle()
    await loader.append(line(1), document(1, { status: 'ready' }))
    await loader.settle()
    expect(await segments()).toEqual([1, 2, 3])
    expect(await stored()).toEqual([idOf(1)])
    expect(await db.row('SELECT status, _segment AS segment FROM editais')).toEqual({
      status: 'ready',
      segment: 3,
    })
  })

  it('is no segment where nothing was logged', async () => {
    const { loader, segments } = await openLoader()
    await loader.settle()
    expect(await segments()).toEqual([])
  })

  it('names the notices that no statement could load', async () => {
    const { loader, stored } = await openLoader()
    await loader.append(RUN)
    await loader.append(line(1), document(1, { valor_estimado: 'much' }))
    await loader.append(line(2), document(2))
    await loader.settle()
    expect(loader.poisoned).toEqual([idOf(1)])
    expect(await stored()).toEqual([idOf(2)])
  })
})

/** A log that the test seals; nothing of it is applied. */
function openHeldLog(held: Partial<Unsealed>) {
  const sealing: PromiseWithResolvers<Segment | null>[] = []
  const appended: Line[] = []
  const log = {
    unsealed: { lines: 1, documents: 1, bytes: 100, ageMs: 0, ...held },
    append: async (each: Line) => void appended.push(each),
    seal: () => {
      const sealed = Promise.withResolvers<Segment | null>()
      sealing.push(sealed)
      return sealed.promise
    },
  }
  const loader = createLoader({
    log: log as unknown as RawLogWriter,
    db: {} as never,
    rows: {} as never,
    projection: { sourceTimezone: TIMEZONE, temporaryDirectory: '/none' },
    onLoaded: () => {},
    onApplied: async () => {},
    inStage: workUntimed,
    pace: PACE,
  })
  return { loader, sealing, appended, log }
}

/** Whether it has resolved by now, when nothing else is to be done. */
async function isDone(promise: Promise<void>): Promise<boolean> {
  let done = false
  promise.then(
    () => {
      done = true
    },
    () => {},
  )
  await setImmediate()
  await setImmediate()
  return done
}

describe('a segment', () => {
  it.each([
    ['3,000 documents', { documents: 2999 }, { documents: 3000 }],
    ['64 MB', { bytes: 64 * 2 ** 20 - 1 }, { bytes: 64 * 2 ** 20 }],
    ['a minute', { ageMs: 59_999 }, { ageMs: 60_000 }],
  ])('is sealed at %s, and not before', async (_, before, at) => {
    const early = openHeldLog(before)
    await early.loader.append(RUN)
    expect(early.sealing).toHaveLength(0)
    const full = openHeldLog(at)
    await full.loader.append(RUN)
    expect(full.sealing).toHaveLength(1)
  })

  it('is sealed when as many documents are still to come, but not for a few', async () => {
    const { loader, sealing, log } = openHeldLog({ documents: 0 })
    loader.expect(3900)
    const sealedAt: number[] = []
    for (let done = 1; done <= 3900; done += 1) {
      log.unsealed.documents += 1
      const before = sealing.length
      await loader.append(RUN)
      if (sealing.length === before) continue
      sealedAt.push(done)
      log.unsealed.documents = 0
      sealing.at(-1)?.resolve(null)
      await loader.idle()
    }
    expect(sealedAt).toEqual([1950, 2925, 3413, 3669])
  })

  it('grows on while one is applied and another waits; then whoever appends waits too', async () => {
    const { loader, sealing, appended } = openHeldLog({ documents: 3000 })
    expect(await isDone(loader.append(RUN))).toBe(true)
    expect(await isDone(loader.append(RUN))).toBe(true)
    const third = loader.append(RUN)
    expect(await isDone(third)).toBe(false)
    expect(appended).toHaveLength(3)
    expect(sealing).toHaveLength(2)
    for (const { resolve } of sealing) resolve(null)
    await third
  })

  it('that cannot be sealed fails what waits for it next, and only then', async () => {
    const { loader, sealing, log } = openHeldLog({ documents: 3000 })
    await loader.append(RUN)
    sealing[0]?.reject(new Error('ENOSPC'))
    await loader.idle()
    log.unsealed.documents = 1
    await loader.append(RUN)
    const settled: ReturnType<Loader['settle']> = loader.settle()
    sealing[1]?.resolve(null)
    await expect(settled).rejects.toThrow('ENOSPC')
  })
})
