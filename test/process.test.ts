import { type ChildProcess, fork } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { inProcess } from '#jobs/process.ts'
import { type Slot, takeSlot } from '#jobs/slots.ts'
import { EXIT } from '#src/errors.ts'
import { configured } from './support/alerting.ts'
import { settingsFor, temporaryDirectory } from './support/project.ts'

/** The process that was started last. */
let child: ChildProcess | undefined
const start = ((...given: Parameters<typeof fork>) => {
  child = fork(...given)
  return child
}) as typeof fork

afterEach(() => {
  vi.useRealTimers()
  child?.kill('SIGKILL')
  child = undefined
})

const ORDER = { kind: 'maintain', job: '1' } as const

async function acme(more: Readonly<Record<string, string>> = {}) {
  const dataDir = await temporaryDirectory()
  return configured({ ...settingsFor({ url: 'http://127.0.0.1:1', key: 'k', dataDir }), ...more })
}

/** Its process hangs while it loads. */
async function hanging() {
  const preload = join(await temporaryDirectory(), 'hang.mjs')
  await writeFile(preload, 'await new Promise(resolve => setTimeout(resolve, 1e9))')
  return await acme({ NODE_OPTIONS: `--import=${preload}` })
}

function slotOf(company: Awaited<ReturnType<typeof acme>>): Slot {
  const slot = takeSlot(new Set(), company)
  onTestFinished(slot.release)
  return slot
}

test('a process that the system has no room for is a failed run that says so, and leaves its slot', async () => {
  const company = await acme()
  const { execPath } = process
  onTestFinished(() => {
    process.execPath = execPath
  })
  process.execPath = join(await temporaryDirectory(), 'none')
  const slot = slotOf(company)
  const release = vi.spyOn(slot, 'release')
  const signal = new AbortController().signal
  expect(await inProcess({ company, order: ORDER, signal, slot })).toMatchObject({
    ...{ kind: 'failed', exitCode: EXIT.failed },
    message: `acme: the process of the run could not be started (ENOENT). Check that ${process.execPath} is there and may be executed, then restart the worker.`,
  })
  expect(release).toHaveBeenCalled()
})

test.each(['EAGAIN', 'EMFILE', 'ENOMEM'])('%s, also as it is thrown, names the limits', async code => {
  const refused = () => {
    throw Object.assign(new Error(`spawn ${code}`), { code })
  }
  const signal = new AbortController().signal
  expect(await inProcess({ company: await acme(), order: ORDER, signal }, refused)).toMatchObject({
    kind: 'failed',
    message: expect.stringMatching(`could not be started \\(${code}\\)\\. Raise the limits .*pids_limit`),
  })
})

test('a process that never gets ready is killed soon after it is to stop, and did not fail', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const company = await hanging()
  const stopping = new AbortController()
  const ending = inProcess({ company, order: ORDER, signal: stopping.signal, slot: slotOf(company) }, start)
  stopping.abort()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(await ending).toMatchObject({
    ...{ kind: 'failed', exitCode: EXIT.interrupted },
    message: expect.stringContaining('did not get ready, and was killed'),
  })
})

test('a process that is not ready after a minute is killed, and failed', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const company = await hanging()
  const signal = new AbortController().signal
  const ending = inProcess({ company, order: ORDER, signal, slot: slotOf(company) }, start)
  await vi.advanceTimersByTimeAsync(59_999)
  expect(child?.killed).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  expect(await ending).toMatchObject({
    ...{ kind: 'failed', exitCode: EXIT.failed },
    message: expect.stringContaining('did not get ready, and was killed'),
  })
})

test('one that gets ready after it was to stop stops as any other', async () => {
  const company = await acme()
  const ended = await inProcess(
    { company, order: ORDER, signal: AbortSignal.abort(), slot: slotOf(company) },
    start,
  )
  expect(child?.signalCode).toBeNull()
  expect(['failed', 'maintained']).toContain(ended.kind)
  expect(JSON.stringify(ended)).not.toMatch(/get ready|died/)
})
