import { randomBytes } from 'node:crypto'
import { rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { openWithOurMarts } from '#src/core/lake/read.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { EXIT, FatalError, messageOf, systemCode } from '#src/lib/errors.ts'
import { page } from './page.ts'
import { readFigures } from './queries.ts'

type At = { readonly now: Date }

/**
 * Returns a company's report as one self-contained HTML file: no scripts, no fonts, no requests. The same snapshot and
 * instant give the same text.
 * @param db a snapshot's catalog.
 */
async function renderReport(db: Database, { now }: At): Promise<string> {
  return page(await readFigures(db, now))
}

/**
 * Returns the report of the latest snapshot in a lake.
 * @throws FatalError if there is no snapshot yet.
 */
export async function renderLatestReport(lake: string, at: At): Promise<string> {
  const { db } = await openWithOurMarts(lake)
  try {
    return await renderReport(db, at)
  } finally {
    db.close()
  }
}

/**
 * Writes the report of the latest snapshot atomically: readers see either the old file or the new one.
 * @param at includes the mode of the file, less the umask.
 */
export async function writeReport(
  lake: string,
  output: string,
  at: At & { readonly mode?: number },
): Promise<{ bytes: number }> {
  const text = await renderLatestReport(lake, at)
  const temporary = join(dirname(output), `.${basename(output)}.${randomBytes(4).toString('hex')}.part`)
  try {
    await writeFile(temporary, text, { flag: 'wx', mode: at.mode ?? 0o666 })
    await rename(temporary, output)
  } catch (error) {
    await rm(temporary, { force: true })
    if (systemCode(error) === 'ENOSPC') throw error
    throw new FatalError(
      `${output} cannot be written: ${systemCode(error) ?? messageOf(error)}. Name another file with --output.`,
      EXIT.usage,
    )
  }
  return { bytes: Buffer.byteLength(text) }
}
