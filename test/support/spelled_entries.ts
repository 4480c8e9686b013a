import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { parse } from 'yaml'
import type { Entry } from '#src/sandbox/world.ts'
import { noticeEntry } from './notices.ts'

/** Notices whose texts look the same, and are written differently. */

const DAY_MS = 86_400_000
const soon = new Date(Date.now() + 3 * DAY_MS).toISOString()

/** Texts that look the same, each as a list of notices has it. The first is the most frequent. */
export const WRITTEN = {
  uf: ['SP', 'SP', 'sp', 'SP ', 'SP\u00a0', 'S\u200bP'],
  modalidade: [
    ...['Pregão - Eletrônico', 'Pregão - Eletrônico', 'Pregão Eletrônico'],
    ...['PREGA\u0303O\u202fELETRO\u0302NICO', 'Pre\u00adgão – eletrônico', 'Pregão na forma eletrônica'],
  ],
  orgao: [
    ...['Câmara de Niterói', 'Câmara de Niterói', 'CÂMARA DE NITERÓI'],
    ...['Ca\u0302mara de Nitero\u0301i', 'Câmara\tde\u2009Niterói', 'Câ\u200bmara de Niterói\ufeff'],
  ],
  discard_reason: [
    ...['Prazo insuficiente', 'Prazo insuficiente', 'prazo insuficiente'],
    ...['Prazo\u00a0insuficiente', ' Prazo insuficiente', 'Prazo insufici\u00adente'],
  ],
  descricao: [
    ...['Água mineral 500 ml', 'Água mineral 500 ml', 'ÁGUA MINERAL 500 ML'],
    ...['A\u0301gua mineral 500 ml', 'Água mineral 500\u202fml', ' Á\u00adgua  mineral\t500 ml'],
  ],
  unidade_medida: ['Unidade', 'UN', 'UN\u00a0', 'Uni\u00addade', 'und.', 'un\u200bid'],
  title: [
    ...['Atestado técnico', 'Atestado técnico', 'ATESTADO TÉCNICO'],
    ...['Atestado te\u0301cnico', 'Atestado\u202ftécnico', 'Ates\u00adtado técnico '],
  ],
  risco: ['medio', 'medio', 'Médio', 'me\u0301dio', 'MEDIO\u00a0', 'mé\u200bdio'],
} as const

export const COUNT = WRITTEN.uf.length

/** One of them; the fields replace what its number has. */
export function spelledEntry(number: number, fields: object = {}): Entry {
  const at = (name: keyof typeof WRITTEN) => WRITTEN[name][number - 1]
  const { uf, modalidade, orgao, discard_reason } = { ...fields } as Record<string, string | undefined>
  return noticeEntry(
    number,
    {
      // No CNPJ: the buyer is known by its name alone.
      pncp_id: `${number}`,
      uf: uf ?? at('uf'),
      modalidade: modalidade ?? at('modalidade'),
      orgao: orgao ?? at('orgao'),
      discard_reason: discard_reason ?? at('discard_reason'),
      objeto: 'Aquisição de medi\u00adcamen\u200btos\u202fba\u0301sicos',
      data_sessao: soon,
      status: 'analysis',
      ...fields,
    },
    {
      requirements: [{ category: 'outros', title: at('title'), status: 'red' }],
      items: [
        {
          numero_item: 1,
          descricao: at('descricao'),
          unidade_medida: at('unidade_medida'),
          valor_unitario_estimado: number,
        },
      ],
      pricing: { risco_pagamento: at('risco') },
    },
  )
}

export const spelledEntries = (fields: object = {}) =>
  Array.from({ length: COUNT }, (_, n) => spelledEntry(n + 1, fields))

/** Sixty notices whose texts are written in any way that looks the same. */
export function spelledAtRandom(seed: number): Entry[] {
  const texts = {
    uf: 'BA',
    modalidade: 'Concorrência - Eletrônica',
    orgao: 'Município de São João del-Rei',
    discard_reason: 'Exigência técnica',
  }
  const count = 60
  const written = Object.fromEntries(
    Object.entries(texts).map(([name, text], n) => [
      name,
      fc.sample(spellingsOf(text), { seed: seed + n, numRuns: count }),
    ]),
  )
  return Array.from({ length: count }, (_, n) =>
    noticeEntry(100 + n, {
      pncp_id: `${n}`,
      ...Object.fromEntries(Object.entries(written).map(([name, all]) => [name, all[n]])),
    }),
  )
}

type Lists = readonly (readonly string[])[]

/** `test/corpus/texts/keys.yaml`: which texts are the same. */
export const KEYS = parse(readFileSync(join(import.meta.dirname, '../corpus/texts/keys.yaml'), 'utf8')) as {
  readonly clean: readonly (readonly [text: string, clean: string | null])[]
  readonly same: Lists
  readonly different: Lists
  readonly modalities: { readonly same: Lists; readonly different: Lists }
  readonly units: { readonly same: Lists; readonly different: Lists }
}

const INVISIBLE = ['\u00ad', '\u200b', '\u200d', '\u200e', '\u2060', '\u2066', '\u202a', '\u061c', '\ufeff']
const SPACES = [' ', '  ', '\t', '\r\n', '\u00a0', '\u2007', '\u2009', '\u202f', '\u3000', ' \u200b ']

/** Random ways to write a text: normal forms, case, spaces and invisible characters. What a person reads stays the same. */
export function spellingsOf(text: string): fc.Arbitrary<string> {
  const letters = [...text]
  return fc
    .record({
      form: fc.constantFrom('NFC', 'NFD'),
      recase: fc.constantFrom(
        (one: string) => one,
        (one: string) => one.toUpperCase(),
        (one: string) => one.toLowerCase(),
      ),
      spaces: fc.array(fc.constantFrom(...SPACES), { minLength: letters.length, maxLength: letters.length }),
      marks: fc.array(fc.constantFrom('', '', '', ...INVISIBLE), {
        minLength: letters.length,
        maxLength: letters.length,
      }),
      ends: fc.tuple(fc.constantFrom('', ...SPACES), fc.constantFrom('', ...SPACES)),
    })
    .map(({ form, recase, spaces, marks, ends: [before, after] }) => {
      const written = letters.map((letter, n) =>
        letter === ' ' ? spaces[n] : recase(letter).normalize(form),
      )
      return `${before}${written.map((one, n) => `${one}${marks[n]}`).join('')}${after}`
    })
}
