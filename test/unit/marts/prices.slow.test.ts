import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readNoticesFile } from '#src/sandbox/world.ts'
import { openMarts } from '#test/support/marts.ts'

/** Real tenders; the project does not ship them. */
const NOTICES_FILE = join(import.meta.dirname, '../../../../shared/pncp/world.ndjson.gz')

/** Names of kinds of things, and services, that three real notices or more have. */
const GENERIC = [
  ...['Chaveiro', 'Switch', 'Sofá', 'Armário', 'Poltrona', 'Fruta', 'Servidor', 'Mesa', 'Mesa madeira'],
  ...['Prestação de serviços de apoio administrativo', 'Prestação Serviço Copa / Cozinha'],
  'Inspeções e Testes em Materiais e Equipamentos Elétricos',
]
/** Things that are the same everywhere, by the beginnings of their names. */
const COMPARABLE = [
  ...['PAPEL, ALCALINO A4, GRAMATURA 75G/M2', 'FRUTA, TIPO ABACAXI PÉROLA', 'AÇÚCAR, TIPO CRISTAL'],
  ...['APARELHO AR CONDICIONADO, CAPACIDADE REFRIGERAÇÃO 12.000 BTU', 'PEN DRIVE, 32 GB'],
]

test('of real notices, price bands and the prices of buyers are of things that can be compared', async ({
  skip,
}) => {
  skip(!existsSync(NOTICES_FILE), `The file of real notices is not here: ${NOTICES_FILE}.`)
  const marts = await openMarts(await readNoticesFile(NOTICES_FILE))
  const bands = await marts.query<{ descricao: string; itens: number }>(
    'SELECT descricao, itens FROM faixas_de_preco',
  )
  const names = bands.map(({ descricao }) => descricao)
  expect(names.filter(name => GENERIC.includes(name))).toEqual([])
  expect(names.filter(name => !/\s/.test(name))).toEqual([])
  expect(COMPARABLE.filter(start => !names.some(name => name.startsWith(start)))).toEqual([])
  expect(bands.length).toBeGreaterThanOrEqual(900)
  expect(
    await marts.query(
      `SELECT * FROM faixas_de_preco
       WHERE preco_p90 > 5 * preco_p10 OR preco_p90 <= 1 OR primeiro_dia IS NULL OR ultimo_dia < primeiro_dia`,
    ),
  ).toEqual([])
  // Both read the same items.
  const [compared] = await marts.query<{ items: number }>(
    'SELECT sum(itens)::BIGINT AS items FROM precos_por_orgao',
  )
  expect(Number(compared?.items)).toBe(bands.reduce((sum, { itens }) => sum + Number(itens), 0))
})
