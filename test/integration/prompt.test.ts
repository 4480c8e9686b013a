import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { notices } from '#test/support/notices.ts'
import { type Environment, temporaryDirectory } from '#test/support/project.ts'
import { startSynced } from '#test/support/synced.ts'
import { KEYS, startOnTerminal } from '#test/support/terminal.ts'

/** Ends only when it is cancelled: DuckDB cannot know that no number is left. */
const ENDLESS = 'SELECT n FROM (SELECT range AS n FROM range(1000000000000)) WHERE n < 0;'
const PROMPT = /editais> $/

async function prompted(settings: Environment = {}) {
  const { environment } = await startSynced(notices(1, 3), settings)
  const state = await temporaryDirectory()
  const own = { ...environment, XDG_STATE_HOME: state }
  const start = async () => {
    const terminal = startOnTerminal(['query'], own, state)
    await terminal.until(PROMPT)
    return terminal
  }
  return { start, history: join(state, 'editais-sync/query_history'), terminal: await start() }
}

test('on a terminal, a query without SQL is a prompt: statements of several lines, errors, and the end', async () => {
  const { terminal } = await prompted()
  await terminal.type(`SELECT count(*) AS n,${KEYS.enter}`, /\.\.\.> $/)
  expect(await terminal.type(`'a;b' AS t FROM editais;${KEYS.enter}`, PROMPT)).toMatch(/│ 3 │ a;b │/)
  const wrong = await terminal.type(`SELECT orgo FROM editais;${KEYS.enter}`, PROMPT)
  expect(wrong).toMatch(/The query failed: .*"orgo" not found.* Candidate bindings: "orgao"/)
  expect(await terminal.type(`;${KEYS.enter}`, PROMPT)).not.toContain('failed')
  expect(await terminal.type(`-- nothing;${KEYS.enter};${KEYS.enter}`, PROMPT)).not.toContain('native')
  expect(await terminal.type(`SELECT 1 AS a; SELECT 2 AS b;${KEYS.enter}`, PROMPT)).toMatch(
    /│ b │\s+├───┤\s+│ 2 │/,
  )
  const off = await terminal.type(`FROM read_csv('/etc/hosts');${KEYS.enter}`, PROMPT)
  expect(off).toContain('Queries can read only the snapshot')
  await terminal.type(`.quit${KEYS.enter}`, '')
  expect(await terminal.ended).toBe(0)
})

test('Ctrl-C cancels a query or clears the line, and Ctrl-D leaves, even in a query', async () => {
  const { terminal } = await prompted()
  await terminal.type(`${ENDLESS}${KEYS.enter}`, /0\);?\n|< 0;/)
  await terminal.type('SELECT 7', 'SELECT 7')
  await terminal.type(KEYS.ctrlC, /Cancelled\.\n.*editais> SELECT 7$/s)
  expect(await terminal.type(`;${KEYS.enter}`, PROMPT)).toMatch(/│ 7 │/)
  await terminal.type('SELECT wrong', 'wrong')
  await terminal.type(KEYS.ctrlC, PROMPT)
  await terminal.type(`SELECT${KEYS.enter}`, /\.\.\.> $/)
  await terminal.type(KEYS.ctrlC, PROMPT)
  expect(await terminal.type(`SELECT 8 AS n;${KEYS.enter}`, PROMPT)).toMatch(/│ 8 │/)
  await terminal.type(`${ENDLESS}${KEYS.enter}`, '< 0;')
  await terminal.type(KEYS.ctrlD, 'Cancelled.')
  expect(await terminal.ended).toBe(0)
})

test('Tab completes tables, and the columns of those that the statement names, before the cursor or behind it', async () => {
  const { terminal } = await prompted()
  await terminal.type(`FROM requis${KEYS.tab}`, 'FROM requisitos_bloqueantes')
  await terminal.type(KEYS.ctrlC, PROMPT)
  await terminal.type(
    `SELECT e.modal FROM editais e${KEYS.left.repeat(' FROM editais e'.length)}`,
    'editais e',
  )
  await terminal.type(KEYS.tab, 'e.modalidade FROM editais e')
  await terminal.type(KEYS.ctrlC, PROMPT)
  expect(await terminal.type(`.columns funil${KEYS.enter}`, PROMPT)).toMatch(
    /│ fase_ordem +│ INTEGER │ Ordem da fase/,
  )
  expect(await terminal.type(`.columns nada${KEYS.enter}`, PROMPT)).toContain('There is no table "nada"')
  expect(await terminal.type(`.tables${KEYS.enter}`, PROMPT)).toMatch(/│ pendencias_habilitacao +│/)
})

test('the history outlives the prompt, for its user alone', async () => {
  const { terminal, start, history } = await prompted()
  await terminal.type(`SELECT 11 AS first_of_all;${KEYS.enter}`, PROMPT)
  await terminal.type(`.quit${KEYS.enter}`, '')
  await terminal.ended
  expect(await readFile(history, 'utf8')).toContain('SELECT 11 AS first_of_all;\n')
  expect((await stat(history)).mode & 0o777).toBe(0o600)
  const next = await start()
  await next.type(KEYS.up + KEYS.up, 'SELECT 11 AS first_of_all;')
  expect(await next.type(KEYS.enter, PROMPT)).toMatch(/│ +11 │/)
})

test('a statement of several lines comes back from the history as one', async () => {
  const { terminal } = await prompted()
  await terminal.type(`SELECT 12${KEYS.enter}`, '...> ')
  await terminal.type(`AS of_two;${KEYS.enter}`, PROMPT)
  await terminal.type(KEYS.up, 'SELECT 12 AS of_two;')
  expect(await terminal.type(KEYS.enter, PROMPT)).toMatch(/│ +12 │/)
})

test('with --csv or --json, SQL must be given', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const terminal = startOnTerminal(['query', '--csv'], environment, environment.DATA_DIR as string)
  await terminal.until('There is no SQL')
  expect(await terminal.ended).toBe(2)
})
