import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Command } from 'commander'
import { EXIT, FatalError, ignoreMissing } from '#src/lib/errors.ts'
import { assertVersionRaised, renderDictionary } from '#src/present/dictionary.ts'

export const DICTIONARY_FILE = join(import.meta.dirname, '../../docs/DATA_DICTIONARY.md')

export function createDictionaryCommand(): Command {
  return new Command('dictionary')
    .description('Write docs/DATA_DICTIONARY.md, which describes every table and mart.')
    .option('--check', 'write nothing; exit 1 if the file is out of date')
    .action(async ({ check }: { check?: true }) => {
      if (check) await checkDictionary(DICTIONARY_FILE)
      else {
        await writeDictionary(DICTIONARY_FILE)
        process.stdout.write(`Wrote ${DICTIONARY_FILE}\n`)
      }
    })
}

/** Writes the dictionary. @throws FatalError if the tables changed, but not their version. */
export async function writeDictionary(file: string): Promise<void> {
  assertVersionRaised((await ignoreMissing(readFile(file, 'utf8'))) ?? '')
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, renderDictionary())
}

/** Checks the dictionary. @throws FatalError if the file is missing or out of date. */
export async function checkDictionary(file: string): Promise<void> {
  if ((await ignoreMissing(readFile(file, 'utf8'))) === renderDictionary()) return
  throw new FatalError(`${file} does not match schema/. Run editais dictionary.`, EXIT.failed)
}
