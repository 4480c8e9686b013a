import type { z } from 'zod'
import type { S3Settings } from '#src/lib/objects/objects.ts'
import { type CatalogSettings, catalogSettings, catalogShape } from './iceberg_catalog.ts'
import { s3Place, s3Settings, s3Shape } from './s3.ts'
import { commaList } from './setting_kinds.ts'

/** Settings of the lake in an object store, as written. */

/** The open table formats that can be published. */
export const FORMAT_NAMES = ['iceberg', 'delta'] as const
export type FormatName = (typeof FORMAT_NAMES)[number]

/** The address of the objects, how to reach them, and what is published. */
export type RemoteLakeSettings = S3Settings & {
  readonly formats: readonly FormatName[]
  /** The catalog that keeps the Iceberg tables; null if their own files do. */
  readonly catalog: CatalogSettings | null
  /** A snapshot is published at least this long after the previous one. */
  readonly intervalMs: number
  /** How long a snapshot stays after a newer one appeared. */
  readonly keepMs: number
}

const formats = commaList(
  name => (FORMAT_NAMES as readonly string[]).includes(name.toLowerCase()),
  `must be one or more of ${FORMAT_NAMES.join(', ')}, separated by commas`,
).transform(given => FORMAT_NAMES.filter(name => given.some(one => one.toLowerCase() === name)))

export const remoteLakeShape = {
  LAKE_URL: s3Place.optional(),
  LAKE_FORMATS: formats.prefault('iceberg'),
  ...s3Shape,
  ...catalogShape,
}

type Values = z.output<z.ZodObject<typeof remoteLakeShape>>

/**
 * Returns null if the lake stays only on this machine.
 * @throws FatalError (usage) if the settings do not fit together.
 */
export function remoteLakeSettings(
  values: Values,
  given: Pick<RemoteLakeSettings, 'keepMs' | 'intervalMs'> & { readonly company: string },
): RemoteLakeSettings | null {
  const { LAKE_URL: at } = values
  if (at === undefined) return null
  const { company, ...times } = given
  return {
    ...s3Settings(values, at),
    formats: values.LAKE_FORMATS,
    catalog: values.LAKE_FORMATS.includes('iceberg') ? catalogSettings(values, company) : null,
    ...times,
  }
}
