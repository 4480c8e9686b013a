import { type ChildProcess, fork } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { runInProcess } from '#jobs/process.ts'
import { withCut } from '#jobs/processors.ts'
import type { RunOrder } from '#jobs/queues/queue.ts'
import { type Slot, takeSlot } from '#jobs/queues/slots.ts'
import { EXIT } from '#src/lib/errors.ts'
import { configured } from '#test/support/alerting.ts'
import { settingsFor, temporaryDirectory } from '#test/support/project.ts'

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

/** A company whose process hangs while it loads. */
async function hanging() {
  const preload = join(await temporaryDirectory(), 'hang.mjs')
  await writeFile(preload, 'await new Promise(resolve => setTimeout(resolve, 1e9))')
  return await acme({ NODE_OPTIONS: `--import=${preload}` })
}

/** A company whose process gets ready and then does nothing, not even stop. */
async function stubborn() {
  const preload = join(await temporaryDirectory(), 'ignore.mjs')
  await writeFile(
    preload,
    "process.on('SIGTERM', () => {}); process.send({ type: 'ready' }); await new Promise(resolve => setTimeout(resolve, 1e9))",
  )
  return await acme({ NODE_OPTIONS: `--import=${preload}` })
}

function slotOf(company: Awaited<ReturnType<typeof acme>>): Slot {
  const slot = takeSlot(new Set(), company)
  onTestFinished(slot.release)
  return slot
}

test('a process that cannot be started is a failed run with the reason, and frees its slot', async () => {
  const company = await acme()
  const { execPath } = process
  onTestFinished(() => {
    process.execPath = execPath
  })
  process.execPath = join(await temporaryDirectory(), 'none')
  const slot = slotOf(company)
  const release = vi.spyOn(slot, 'release')
  const signal = new AbortController().signal
  expect(await runInProcess({ company, order: ORDER, signal, slot })).toMatchObject({
    kind: 'failed',
    exitCode: EXIT.failed,
    message: `acme: cannot start the process of the maintenance (ENOENT). Check that ${process.execPath} exists and is executable, then restart the worker.`,
  })
  expect(release).toHaveBeenCalled()
})

test.each(['EAGAIN', 'EMFILE', 'ENOMEM'])('%s, even if thrown, names the limits', async code => {
  const refused = () => {
    throw Object.assign(new Error(`spawn ${code}`), { code })
  }
  const signal = new AbortController().signal
  expect(await runInProcess({ company: await acme(), order: ORDER, signal }, refused)).toMatchObject({
    kind: 'failed',
    message: expect.stringMatching(
      `cannot start the process of the maintenance \\(${code}\\)\\. Raise the limits .*pids_limit`,
    ),
  })
})

test.each([
  ['soon after a stop, without counting as failed', 10_000, EXIT.interrupted],
  ['after a minute, and counts as failed', 60_000, EXIT.failed],
] as const)('a process that never gets ready is killed %s', async (_, afterMs, exitCode) => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const company = await hanging()
  const stopping = new AbortController()
  const ending = runInProcess(
    { company, order: ORDER, signal: stopping.signal, slot: slotOf(company) },
    start,
  )
  if (exitCode === EXIT.interrupted) stopping.abort()
  await vi.advanceTimersByTimeAsync(afterMs - 1)
  expect(child?.killed).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  const message = expect.stringContaining('did not get ready in time and was killed')
  expect(await ending).toMatchObject({ kind: 'failed', exitCode, message })
})

test('a process that gets ready after a stop was requested still stops normally', async () => {
  const company = await acme()
  const ended = await runInProcess(
    { company, order: ORDER, signal: AbortSignal.abort(), slot: slotOf(company) },
    start,
  )
  // Not `signalCode`: the signal may arrive while the process, which has reported its end, exits.
  expect(['failed', 'maintained']).toContain(ended.kind)
  expect(JSON.stringify(ended)).not.toMatch(/get ready|died/)
})

test.each([
  ['timeout', 'RUN_TIMEOUT'],
  ['share', 'WORKER_FAIR_SHARE'],
] as const)(
  'a run that does not end when asked to (%s) is killed, and its message names the setting',
  async (cut, setting) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const company = await stubborn()
    const slot = slotOf(company)
    const ending = runInProcess({ company, order: ORDER, signal: slot.signal, slot }, start)
    await new Promise(resolve => child?.once('message', resolve))
    slot.end(cut)
    await vi.advanceTimersByTimeAsync(49_999)
    expect(child?.killed).toBe(true)
    expect(child?.signalCode).toBeNull()
    await vi.advanceTimersByTimeAsync(1)
    const ended = await ending
    expect(ended).toMatchObject({ kind: 'failed', cause: 'killed' })
    expect(withCut(ended, slot)).toMatchObject({
      message: `acme: the run did not stop when asked (${setting}), and was killed. What it stored is kept; the next run continues from there.`,
    })
  },
)

const KILLED_ORDERS: readonly (readonly [RunOrder, string])[] = [
  [
    { kind: 'sync', job: '1', full: false, restart: false },
    'run died (SIGKILL). What it stored is kept; the next run continues from there.',
  ],
  [ORDER, 'maintenance died (SIGKILL). No data is lost; the next maintenance does the rest.'],
  [{ kind: 'status' }, 'status died (SIGKILL). It only read data; request the status again.'],
  [{ kind: 'report' }, 'report died (SIGKILL). It only read data; request the report again.'],
]

test.each(KILLED_ORDERS)(
  'if %o is killed from outside, the message says what is lost',
  async (order, what) => {
    const company = await stubborn()
    const slot = slotOf(company)
    const ending = runInProcess({ company, order, signal: slot.signal, slot }, start)
    await new Promise(resolve => child?.once('message', resolve))
    process.kill(child?.pid as number, 'SIGKILL')
    // It does not count as asked to end.
    expect(withCut(await ending, slot)).toEqual({
      kind: 'failed',
      exitCode: EXIT.failed,
      cause: 'killed',
      message: `acme: the process of the ${what} It may have run out of memory; fewer concurrent runs (WORKER_CONCURRENCY) need less.`,
    })
  },
)
