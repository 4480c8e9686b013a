import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { notices } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

const CARDS = join(import.meta.dirname, '../../config/metabase/cards')

async function asked(
  questions: Readonly<Record<string, string>> = {},
  entries = notices(1, 1, { uf: 'RN' }),
) {
  const { environment } = await startSynced(entries)
  const directory = join(await temporaryDirectory(), 'config/questions')
  await mkdir(directory, { recursive: true })
  for (const [name, sql] of Object.entries(questions)) await writeFile(join(directory, name), sql)
  return {
    directory,
    environment,
    ask: (...args: string[]) => runShared(['ask', ...args], environment, join(directory, '../..')),
  }
}

test('without a question, all are listed; every card of the dashboards can be asked', async () => {
  const { ask } = await asked()
  const list = await ask()
  expect(list).toMatchObject({ code: 0, stderr: '' })
  const keys = (await readdir(CARDS)).map(name => name.replace('.sql', ''))
  for (const key of keys) {
    expect(list.stdout).toMatch(new RegExp(`^ {2}${key} `, 'm'))
    expect(await ask(key, '--csv'), key).toMatchObject({ code: 0, stderr: '' })
    const stdout = expect.not.stringMatching(/\b(NULL|true|false)\b|\d{4}-\d\d-\d\d|\d[.,]\d{4}/)
    expect(await ask(key), key).toEqual({ code: 0, stderr: '', stdout })
  }
})

test('a parameter limits the rows, however it is written, and without it there are all', async () => {
  const data_sessao = new Date(Date.now() + 2 * 86_400_000).toISOString()
  const entries = [...notices(1, 2, { uf: 'RN', data_sessao }), ...notices(3, 3, { uf: ' SP ', data_sessao })]
  const { ask } = await asked({}, entries)
  const rowsOf = async (...args: string[]) =>
    JSON.parse((await ask('agenda', '--json', ...args)).stdout) as { UF: string }[]
  expect(await rowsOf('--uf', 'RN')).toHaveLength(2)
  expect(await rowsOf('--uf', ' sp ')).toHaveLength(1)
  expect(await rowsOf()).toHaveLength(3)
  expect(await rowsOf('--uf', "RN' OR true --")).toEqual([])
})

test('a file in config/questions is a question: values are bound, typed by the SQL, and one can be required', async () => {
  const { ask } = await asked({
    'por_id.sql':
      '-- Um edital\n-- Pelo número.\nSELECT {{id}}::BIGINT + 1 AS n FROM editais WHERE edital_id IS NOT NULL [[AND uf = {{uf}}]] [[AND orgao = {{orgao}}]]\n',
    'agenda.sql': "-- Minha agenda\n-- No lugar da nossa.\nSELECT 'nossa' AS dono\n",
    'leia-me.txt': 'not a question',
  })
  const list = (await ask()).stdout
  expect(list).toMatch(/^ {2}por_id .*Um edital$/m)
  expect(list).not.toContain('leia-me')
  expect((await ask('por_id', '--help')).stdout).toMatch(/--id <value> +required\n +--uf <value> +optional/)
  expect((await ask('por_id', '--id', '3', '--uf', 'RN', '--csv')).stdout).toBe('n\r\n4\r\n')
  expect((await ask('agenda', '--csv')).stdout).toBe('dono\r\nnossa\r\n')
  expect(await ask('por_id')).toMatchObject({ code: 2, stderr: expect.stringContaining("'--id <value>'") })
  expect(await ask('por_id', '--id', 'x')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^The query failed in por_id\.sql.*Could not convert string 'x' to INT64/),
  })
  expect(await ask('por_id', '--id', "3'; DROP TABLE editais; --")).toMatchObject({ code: 1 })
})

test('a question reads only the snapshot, as any other query', async () => {
  const { ask } = await asked({
    'arquivo.sql': "-- Um arquivo\n-- Que não é do snapshot.\nFROM read_csv('/etc/hosts')\n",
  })
  expect(await ask('arquivo')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^The query failed in arquivo\.sql.*Queries can read only the snapshot/),
  })
})

test.each([
  ['no comment', 'SELECT 1\n', /x\.sql must begin with two comment lines/],
  [
    'a parameter with the name of an option',
    '-- A\n-- B\nSELECT {{json}}\n',
    /a parameter cannot be called json\. Rename it/,
  ],
])('a file with %s is reported, and nothing else', async (_, sql, message) => {
  const { ask } = await asked({ 'x.sql': sql })
  const { code, stdout, stderr } = await ask('agenda')
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(message)
})

test('a wrong name or option is answered with the nearest right one', async () => {
  const { ask } = await asked()
  expect(await ask('pendencia')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('There is no question "pendencia". Did you mean pendencias'),
  })
  expect(await ask('pendencias', '--ufo', 'SP')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--uf'),
  })
  expect(await ask('pendencias', '--csv', '--json')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Use --csv or --json, not both.'),
  })
})

test('--all asks all companies together, and before the first snapshot it says what to do', async () => {
  const { ask, environment } = await asked()
  expect(await ask('editais_em_andamento', '--all', '--csv')).toMatchObject({ code: 0 })
  const empty = { ...environment, DATA_DIR: await temporaryDirectory() }
  expect(await runShared(['ask', 'agenda'], empty)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('editais sync'),
  })
})
