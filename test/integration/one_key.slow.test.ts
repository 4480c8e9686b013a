import { expect, test } from 'vitest'
import { connectToCommand } from '#test/support/mcp.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import {
  COUNT,
  spelledAtRandom,
  spelledEntries,
  spelledEntry,
  WRITTEN,
} from '#test/support/spelled_entries.ts'
import { startSynced } from '#test/support/synced.ts'

/** fast-check names it with the case that fails. */
const SEED = 3608

const FILTERS = ['SP', 'sp', ' sp ', 'SP\u00a0', 'S\u00adP']
const MODALITIES = [
  'pregao eletronico',
  'Pregão - Eletrônico',
  'PREGA\u0303O\u202fELETRO\u0302NICO',
  'pre\u00adgão',
]

test(`the served API and the pages find every spelling, and return it as it was sent (seed ${SEED})`, async () => {
  const written = spelledAtRandom(SEED)
  const { environment } = await startSynced([
    ...spelledEntries(),
    ...written,
    spelledEntry(20, { uf: 'RJ', modalidade: 'Dispensa', orgao: 'x', objeto: 'y' }),
  ])
  const { json, ask, keys } = await serveApi(environment)
  type Page = { total: number; editais: { uf: string; id: string }[] }
  const search = (parameters: Record<string, string>) =>
    json<Page>(`/api/v1/mirror/editais?${new URLSearchParams({ limit: '50', ...parameters })}`)
  for (const uf of FILTERS) expect((await search({ uf })).total, JSON.stringify(uf)).toBe(COUNT)
  expect((await search({ uf: 'sp\u00a0, rj' })).total).toBe(COUNT + 1)
  for (const modalidade of MODALITIES)
    expect((await search({ modalidade })).total, JSON.stringify(modalidade)).toBe(COUNT)
  expect((await search({ modalidade: 'dispensa de licitação' })).total).toBe(1)
  for (const q of [
    'medicamentos',
    'medica\u0301mentos',
    'medi\u00adcamento',
    'medi\ufeffcamentos',
    'niteroi',
    '"medicamentos básicos"',
    'medicam*',
    'basicos',
  ])
    expect((await search({ q })).total, JSON.stringify(q)).toBe(COUNT)
  for (const any of [{ uf: 'ba' }, { modalidade: 'concorrencia eletronica' }, { q: '"sao joao del rei"' }])
    expect((await search(any)).total, JSON.stringify(any)).toBe(written.length)
  const { editais } = await search({ uf: 'sp' })
  expect(editais.map(({ uf }) => uf).sort()).toEqual([...WRITTEN.uf].sort())
  const person = { key: null, headers: { cookie: `editais_chave=${keys.acme}` } }
  for (const parameters of [
    { uf: 'sp ' },
    { modalidade: 'Pregão\u202fEletrônico' },
    { q: 'medi\u200bcamentos' },
  ]) {
    const { body } = await ask(`/editais?${new URLSearchParams(parameters)}`, person)
    expect(body.toString()).toContain(`${COUNT} editais.`)
  }
})

test('saved questions and tools for agents find every spelling', async () => {
  const { environment } = await startSynced(spelledEntries())
  // The API's test has more of them. Each call is a process.
  const [uf, text, orgao] = ['S\u00adP', 'Medi\u00adcamentos ca\u200bmara', 'CAMARA\u202fDE NITEROI']
  const { stdout } = await runShared(['ask', 'agenda', '--uf', uf, '--json'], environment)
  expect((JSON.parse(stdout) as unknown[]).length).toBe(COUNT)
  const { call } = await connectToCommand(environment)
  expect((await call('search_notices', { uf, q: text })).data.total).toBe(COUNT)
  const filters = { uf, orgao, modalidade: 'pregao eletronico' }
  expect((await call('ask_mart', { mart: 'agenda_sessoes', filters })).data.rows).toHaveLength(COUNT)
})

test('a table on a terminal shows no character that it would obey or hide', async () => {
  const { environment } = await startSynced([
    spelledEntry(1, { orgao: 'Câmara\u202e de\u200b Niterói\u001b[31m' }),
  ])
  const { stdout } = await runShared(['query', 'SELECT orgao FROM editais'], environment)
  expect(stdout).toContain('Câmara de Niterói [31m')
  const failed = await runShared(['query', `SELECT 'a\u202eb'::INT`], environment)
  expect(failed.stderr).toContain("'ab'")
  const raw = await runShared(['query', 'SELECT orgao FROM editais', '--csv'], environment)
  expect(raw.stdout).toContain('Câmara\u202e de\u200b Niterói')
})
