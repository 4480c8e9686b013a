import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { commandOf } from '../command.ts'
import { factsOf, wrongNotices } from '../month/truth.ts'
import { run } from '../processes.ts'
import type { ChangingCompany } from './companies.ts'

/**
 * Restores each company on an empty disk, without a request to the API, and compares it with its world.
 * @returns what differs.
 */
export async function compareAll(
  companies: readonly ChangingCompany[],
  directory: string,
  env: Readonly<Record<string, string>>,
): Promise<string[]> {
  await mkdir(directory)
  const dataDir = join(directory, 'data')
  const wrong: string[] = []
  const { nodeOptions, file, args } = await commandOf('restore')
  for (const { slug, world } of companies) {
    const settings = { ...env, DATA_DIR: dataDir, LOG_LEVEL: 'warn' }
    await run(file, [...args, '--company', slug], { cwd: directory, env: settings, nodeOptions })
    const differing = await wrongNotices(dataDir, slug, factsOf(world))
    if (differing.length > 0) wrong.push(`${slug}: ${differing.slice(0, 3).join(', ')}`)
  }
  return wrong
}
