import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { checkDictionary, DICTIONARY_FILE, writeDictionary } from '#src/cli/dictionary.ts'
import { SCHEMA_VERSION } from '#src/core/warehouse/schema.ts'
import { temporaryDirectory } from '#test/support/project.ts'

describe('the data dictionary', () => {
  it('matches the schema', async () => {
    await checkDictionary(DICTIONARY_FILE)
  })

  it('gives the command to run if it is missing, which writes it', async () => {
    const file = join(await temporaryDirectory(), 'DATA_DICTIONARY.md')
    await expect(checkDictionary(file)).rejects.toThrow('Run npm run dictionary')
    await writeDictionary(file)
    await checkDictionary(file)
  })
})

describe('a change of what a log gives', () => {
  /** The dictionary of a version, with other tables or statements. */
  async function recorded(version: number): Promise<string> {
    const file = join(await temporaryDirectory(), 'DATA_DICTIONARY.md')
    const text = await readFile(DICTIONARY_FILE, 'utf8')
    const line = `<!-- Version ${version} of the tables, ${'0'.repeat(64)} -->`
    const other = text.replace(/^<!-- Version .*$/m, line)
    expect(other).toContain(line)
    await writeFile(file, other)
    return file
  }

  it('is refused with the same version, so that older programs leave a newer warehouse alone', async () => {
    const file = await recorded(SCHEMA_VERSION)
    const before = await readFile(file, 'utf8')
    await expect(writeDictionary(file)).rejects.toThrow(`since: ${SCHEMA_VERSION + 1}`)
    expect(await readFile(file, 'utf8')).toBe(before)
  })

  it('is recorded with the next version', async () => {
    const file = await recorded(SCHEMA_VERSION - 1)
    await writeDictionary(file)
    await checkDictionary(file)
  })
})
