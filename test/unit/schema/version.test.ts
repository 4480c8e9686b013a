import { expect, test } from 'vitest'
import { SCHEMA_VERSION, schemaHash } from '#src/store/warehouse/warehouse.ts'

/** The latest version of the tables, with its hash. */
const RECORDED = { version: 3, hash: 'bc1790052150de43d3e1504b29f972fdb18a6b5fcc059a475dd3901fa301a735' }

test('every change of what a log gives raises SCHEMA_VERSION, so that older versions leave the warehouse alone', () => {
  const isSame = schemaHash('America/Sao_Paulo') === RECORDED.hash
  expect(
    { version: SCHEMA_VERSION, isSame },
    'Tables, statements or DuckDB changed: raise SCHEMA_VERSION, and record the version and the hash here.',
  ).toEqual({ version: RECORDED.version, isSame: true })
})
