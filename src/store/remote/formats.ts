import type { FormatName } from '#config/remote_lake.ts'
import { DELTA } from './delta/table.ts'
import type { TableFormat } from './format.ts'
import { ICEBERG } from './iceberg/table.ts'

export const FORMATS: Readonly<Record<FormatName, TableFormat>> = { iceberg: ICEBERG, delta: DELTA }
