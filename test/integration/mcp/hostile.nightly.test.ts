import { readdir } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { CANARIES, casesOf, startSurrounded } from '#test/support/hostile.ts'
import { type Called, connectToCommand } from '#test/support/mcp.ts'

/** `bounded` is an error or a small answer, whichever the machine's speed and memory lead to. */
type Expected = 'refused' | 'fails' | 'bounded' | 'cut' | 'answers'
type Case = {
  readonly sql?: string
  readonly tool?: string
  readonly given?: Record<string, unknown>
  readonly expect: Expected
  readonly says?: string | number
  readonly rows?: unknown
  readonly total?: number
}

/** Five seconds, and what a busy machine needs to start a process and to answer. */
const WITHIN_MS = 5000 + 10_000
/** Of an answer: as structure and as text. */
const MAX_ANSWER = 400_000

test('hostile SQL and arguments read nothing outside the snapshot, and end in time', {
  timeout: 600_000,
}, async () => {
  const { environment, temporary, fill, paths } = await startSurrounded()
  const dataDir = environment.DATA_DIR as string
  const before = await readdir(dataDir)
  const { client, call } = await connectToCommand(environment)
  const cases = [...(await casesOf<Case>('sql')), ...(await casesOf<Case>('calls'))]
  expect(cases.length).toBeGreaterThan(220)
  const problems: string[] = []
  for (const one of cases) {
    const filled = JSON.parse(fill(JSON.stringify(one))) as Case
    const { tool = 'query', given = { sql: filled.sql } } = filled
    const called = await call(tool, given).catch(error => failed(error))
    const secrets = [...Object.values(CANARIES), ...paths].filter(secret => leaks(called.text, secret, given))
    const wrong = [
      ...secrets.map(secret => `shows ${secret}`),
      ...(called.ms > WITHIN_MS ? [`takes ${Math.round(called.ms)} ms`] : []),
      ...(called.text.length > MAX_ANSWER ? [`has ${called.text.length} characters`] : []),
      ...unexpected(filled, called),
    ]
    if (wrong.length > 0)
      problems.push(`${JSON.stringify(one).slice(0, 200)}: ${wrong.join('; ')}: ${called.text.slice(0, 300)}`)
  }
  expect(problems).toEqual([])
  // It still works, and left nothing.
  expect((await call('search_notices')).data.total).toBe(3)
  await client.close()
  const left = (await readdir(temporary)).filter(name => name.startsWith('editais-sync-mcp'))
  expect(left).toEqual([])
  // Where its processes would leave dumps.
  expect(await readdir(dataDir)).toEqual(before)
})

/** What the client itself sent may be in its answer. */
function leaks(text: string, secret: string, given: unknown): boolean {
  return text.includes(secret) && !JSON.stringify(given).includes(secret)
}

/** An unknown tool and wrong arguments can be errors of the protocol. */
function failed(error: unknown): Called {
  return { isError: true, text: String((error as Error).message), data: null, ms: 0 }
}

function unexpected(
  { expect: expected, says, rows, total }: Case,
  { isError, text, data }: Called,
): string[] {
  const wantsError = { refused: true, fails: true, bounded: isError, cut: false, answers: false }[expected]
  const wrong: string[] = []
  if (isError !== wantsError) wrong.push(isError ? 'is an error' : 'is no error')
  if (expected === 'cut' && data?.left_out?.length === 0) wrong.push('is whole')
  if (says !== undefined && !text.includes(String(says))) wrong.push(`does not say ${says}`)
  if (rows !== undefined && JSON.stringify(data?.rows) !== JSON.stringify(rows)) wrong.push('has other rows')
  if (total !== undefined && data?.total !== total) wrong.push(`has total ${data?.total}`)
  return wrong
}
