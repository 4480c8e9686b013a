import { mkdir, readFile, realpath, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { parse } from 'yaml'
import { startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { bareNotice, notices } from './notices.ts'
import { type Environment, settingsFor, syncOnce, temporaryDirectory } from './project.ts'
import { runShared } from './shared.ts'

const CORPUS = join(import.meta.dirname, '../corpus/mcp')

/** What must be in no answer: each is in another place beside the company's snapshot. */
export const CANARIES = {
  file: 'canary-in-a-file-7c1e',
  environment: 'canary-in-the-environment-9b42',
  other: 'canary of another company 3d5f',
} as const

export type Surroundings = {
  /** Of `acme`, whose snapshot clients may read. */
  readonly environment: Environment
  /** Where temporary files of its processes are. */
  readonly temporary: string
  /** Replaces the placeholders of the corpus. */
  readonly fill: (text: string) => string
  /** Paths that must be in no answer. */
  readonly paths: readonly string[]
}

/** Companies `acme` and `outra` in one data directory, with secrets around them. */
export async function startSurrounded(): Promise<Surroundings> {
  const key = (slug: string) => `edk_test_${slug}`
  const secretNotice = bareNotice(1, { id: 'o00001', objeto: CANARIES.other })
  const sandbox = await startSandbox({
    companies: [
      { slug: 'acme', key: key('acme'), world: new World(notices(1, 3)) },
      { slug: 'outra', key: key('outra'), world: new World([secretNotice]) },
    ],
  })
  onTestFinished(() => sandbox.close())
  const dataDir = await temporaryDirectory()
  const temporary = join(dataDir, 'tmp')
  await mkdir(temporary)
  const settings = (company: string) => settingsFor({ url: sandbox.url, key: key(company), dataDir, company })
  for (const company of ['acme', 'outra']) await syncOnce(settings(company), ['--full'], 0, runShared)
  const secret = join(dataDir, 'secret.csv')
  await writeFile(secret, CANARIES.file)
  const [own, other] = await Promise.all(
    ['acme', 'outra'].map(company => realpath(join(dataDir, company, 'lake/latest'))),
  )
  // A link within the snapshot, to a file that must not be read.
  await symlink(secret, join(own as string, 'link.csv'))
  const places: Readonly<Record<string, string>> = {
    ...{ secret, own: own as string, other: other as string, data: dataDir },
    keys: join(dataDir, 'api_keys.sqlite'),
  }
  return {
    environment: { ...settings('acme'), CANARY: CANARIES.environment, TMPDIR: temporary },
    temporary,
    fill: text =>
      text
        .replaceAll(/\{\{repeat (\d+) (.*?)\}\}/g, (_, count, part) => part.repeat(Number(count)))
        .replaceAll(/\{\{(\w+)\}\}/g, (all, name) => places[name] ?? all),
    paths: [dataDir],
  }
}

/** The cases of a file in test/corpus/mcp. */
export async function casesOf<T>(name: string): Promise<T[]> {
  return parse(await readFile(join(CORPUS, `${name}.yaml`), 'utf8'))
}
