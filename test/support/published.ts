import { createHash } from 'node:crypto'
import { readdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { notices } from './notices.ts'
import { companyDirectory, type Environment } from './project.ts'
import { runShared } from './shared.ts'
import { startSynced } from './synced.ts'

export const SECRET = 'the words of another file'

/** One company with a snapshot, and a file beside the snapshot that does not belong to it. */
export async function published(settings: Environment = {}) {
  const company = await startSynced(notices(1, 6, { data_sessao: '2026-12-10T12:00:00Z' }), settings)
  const { environment } = company
  const snapshot = await realpath(join(companyDirectory(environment), 'lake/latest'))
  const file = join(environment.DATA_DIR as string, 'secret.csv')
  await writeFile(file, `a\n${SECRET}\n`)
  const query = (sql: string, ...args: string[]) => runShared(['query', ...args, sql], environment)
  return { environment, snapshot, file, query }
}

export async function hashesOf(directory: string): Promise<Map<string, string>> {
  const names = await readdir(directory, { recursive: true, withFileTypes: true })
  const paths = names.filter(name => name.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const hashed = paths.sort().map(async path => {
    const hash = createHash('sha256')
      .update(await readFile(path))
      .digest('hex')
    return [path, hash] as const
  })
  return new Map(await Promise.all(hashed))
}
