import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { companyPaths, makeDirectories } from '#src/core/company/company.ts'
import { temporaryDirectory } from '#test/support/project.ts'

test('the directories of many companies can be created at once, in a DATA_DIR that does not exist yet', async () => {
  const slugs = Array.from({ length: 20 }, (_, index) => `company-${index + 10}`)
  for (let round = 0; round < 6; round += 1) {
    const dataDir = join(await temporaryDirectory(), 'not', 'there', 'yet')
    // Each twice, as two workers would.
    await Promise.all([...slugs, ...slugs].map(slug => makeDirectories(companyPaths(dataDir, slug))))
    expect((await readdir(dataDir)).sort()).toEqual(slugs)
  }
})
