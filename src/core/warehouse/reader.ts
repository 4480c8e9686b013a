import { DuckDBScalarFunction, VARCHAR } from '@duckdb/node-api'
import { READER_VERSION, readDeadlinesAsJson } from '#src/deadlines/reading.ts'

/** The function that reads deadlines in statements of the warehouse. Its version is part of them. */
export const DEADLINES_FUNCTION = `ler_prazos_${READER_VERSION}`

/**
 * Makes a function of SQL that reads two texts with `readDeadlinesAsJson`. It runs on the thread of this process, a chunk of rows
 * at a time; published files have its results, so that readers of a snapshot do not need it.
 */
export function createDeadlinesFunction(): DuckDBScalarFunction {
  return DuckDBScalarFunction.create({
    name: DEADLINES_FUNCTION,
    parameterTypes: [VARCHAR, VARCHAR],
    returnType: VARCHAR,
    mainFunction: (_info, input, output) => {
      const [texts, laws] = [input.getColumnVector(0), input.getColumnVector(1)]
      for (let row = 0; row < input.rowCount; row += 1) {
        output.setItem(
          row,
          readDeadlinesAsJson(String(texts.getItem(row) ?? ''), String(laws.getItem(row) ?? '')),
        )
      }
      output.flush()
    },
  })
}
