import { expect, test } from 'vitest'
import { complete, isComplete } from '#src/cli/prompt.ts'

const CATALOG = new Map([
  ['editais', ['edital_id', 'orgao', 'uf', 'modalidade']],
  ['editais_ativos', ['edital_id', 'orgao', 'fase']],
  ['items', ['edital_id', 'item_numero', 'unidade']],
])

const words = (line: string, { before = '', behind = '' } = {}) =>
  complete(line, { before, behind }, CATALOG)[0]

test.each([
  ['SELECT * FROM ed', ['editais', 'editais_ativos']],
  ['SELECT * FROM ', ['editais', 'editais_ativos', 'items']],
  ['FROM editais JOIN it', ['items']],
  ['DESCRIBE IT', ['items']],
  ['.columns edit', ['editais', 'editais_ativos']],
])('behind %j only tables: %j', (line, expected) => {
  expect(words(line)).toEqual(expected)
})

test('columns are those of the tables that the statement names, on any of its lines', () => {
  expect(words('SELECT uni', { behind: ' FROM items' })).toEqual(['unidade', 'union all'])
  expect(words('WHERE u', { before: 'SELECT uf\nFROM editais' })).toContain('uf')
  expect(words('WHERE u', { before: 'SELECT uf\nFROM editais' })).not.toContain('unidade')
  expect(words('SELECT uni', { behind: ' FROM editais' })).toEqual(['union all'])
  expect(words('SELECT unid')).toEqual(['unidade'])
})

test('an alias, or the name of a table, has the columns of its table', () => {
  expect(words('FROM editais AS e JOIN items i USING (edital_id) WHERE i.')).toEqual([
    'i.edital_id',
    'i.item_numero',
    'i.unidade',
  ])
  expect(words('SELECT e.o', { behind: ' FROM editais_ativos e' })).toEqual(['e.orgao'])
  expect(words('SELECT editais.mo')).toEqual(['editais.modalidade'])
  expect(words('SELECT nada.', { behind: ' FROM editais' })).toEqual([])
  expect(words('FROM editais WHERE where.')).toEqual([])
})

test('keywords are in capitals, unless the user writes in lower case', () => {
  expect(words('SEL')).toEqual(['SELECT'])
  expect(words('sel')).toEqual(['select'])
  expect(words('FROM editais gro')).toEqual(['group by', 'group by all'])
})

test('a command is completed at the beginning of a statement only', () => {
  expect(words('.c')).toEqual(['.columns'])
  expect(words('.c', { before: 'SELECT 1' })).toEqual([])
})

test('only the part that is replaced is given back', () => {
  expect(complete('SELECT orgao, mod', { before: '', behind: ' FROM editais' }, CATALOG)).toEqual([
    ['modalidade'],
    'mod',
  ])
})

test.each([
  'SELECT 1;',
  'SELECT 1; ',
  'SELECT 1; -- and a comment',
  "SELECT 'it''s; so';",
  'SELECT "a;b" FROM t;',
  'SELECT $$ a; $$;',
  'SELECT $q$ a; $$ $q$;',
  'SELECT 1 /* ; */;',
  'SELECT 1;\n;',
])('%j is complete', sql => expect(isComplete(sql)).toBe(true))

test.each([
  'SELECT 1',
  "SELECT 'a;",
  "SELECT 'it''s;",
  'SELECT "a;',
  'SELECT 1 -- not;',
  'SELECT 1 /* not;',
  'SELECT 1 /* not */ ;\n FROM t',
  'SELECT $$ a;',
  'SELECT $q$ a; $$;',
])('%j needs more lines', sql => expect(isComplete(sql)).toBe(false))
