import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { BoundedFiles } from '#src/core/warehouse/bounded_files.ts'
import { temporaryDirectory } from '#test/support/project.ts'

/** More than a file's bound. */
const LARGE = 'b'.repeat(8 * 1024 * 1024)

test('a file that failed is reported, although the next one is written', async () => {
  const directory = join(await temporaryDirectory(), 'later')
  const files = new BoundedFiles(directory, 'lines')
  await files.add(['a'])
  await expect(files.flush()).rejects.toThrow('ENOENT')
  await mkdir(directory)
  await files.add([LARGE])
  await expect(files.flush()).rejects.toThrow('ENOENT')
  await files.close()
})
