import { expect } from 'vitest'
import { type Environment, startCommand } from '#test/support/project.ts'
import type { S3Request } from '#tools/s3_server.ts'

export const ENDS_WITHIN_MS = 5000

type Gated<R> = { gate: (request: R) => Promise<void> }

/** From now on, the first of these requests and all later ones get no answer. @returns when it came. */
export function hang<R>(server: Gated<R>, isMeant: (request: R) => boolean): Promise<void> {
  const reached = Promise.withResolvers<void>()
  let hangs = false
  server.gate = async request => {
    hangs ||= isMeant(request)
    if (!hangs) return
    reached.resolve()
    await new Promise(() => {})
  }
  return reached.promise
}

/** The log's owner is written when it is taken, and again when it is given back. */
export function givenBack(): (request: S3Request) => boolean {
  let writes = 0
  return ({ method, key }) => {
    if (method === 'PUT' && key.endsWith('owner.json')) writes += 1
    return writes > 1
  }
}

const LAST_LINE_MS = 5000

/** Sends Ctrl-C once the store hangs. */
export async function interrupted(
  args: readonly string[],
  environment: Environment,
  hung: Promise<void>,
  signal: NodeJS.Signals = 'SIGINT',
) {
  const { child, ended } = startCommand(args, environment, environment.DATA_DIR ?? '')
  await hung
  const startedMs = performance.now()
  child.kill(signal)
  const { code, stderr } = await ended
  return { code, stderr, ms: performance.now() - startedMs }
}

export async function expectEnd(done: Awaited<ReturnType<typeof interrupted>>, code = 130): Promise<void> {
  expect(done.ms).toBeLessThan(ENDS_WITHIN_MS)
  expect([done.code, done.stderr]).toEqual([code, expect.not.stringContaining('    at ')])
  expect(done.stderr).toContain('A second Ctrl-C ends it now.')
}

/** @param ends what the command reports. */
export async function expectEndAfterReport(
  args: readonly string[],
  environment: Environment,
  hung: Promise<void>,
  ends: string,
): Promise<void> {
  const { child, ended } = startCommand(args, environment, environment.DATA_DIR ?? '')
  let [lastMs, hungMs] = [0, 0]
  void hung.then(() => {
    hungMs = performance.now()
  })
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', () => {
      lastMs = performance.now()
    })
  const { code, stdout, stderr } = await ended
  const endMs = performance.now()
  expect([code, `${stdout}${stderr}`]).toEqual([0, expect.stringContaining(ends)])
  expect(endMs - lastMs).toBeLessThan(LAST_LINE_MS)
  // The report comes at most five seconds after the store began to hang.
  expect(endMs - hungMs).toBeLessThan(2 * LAST_LINE_MS)
}
