import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findSystemCode } from '#src/lib/errors.ts'
import { CACHE, replaceCached } from './cached.ts'
import { findOnPath, installPackages, type Packages, say } from './system_packages.ts'

const GO: Packages = { 'apt-get': ['golang-go'], dnf: ['golang'], apk: ['go'], brew: ['go'] }
/** Two cores that others use, too, need a quarter of an hour for the largest. */
const BUILD_TIMEOUT_MS = 1_800_000

/**
 * The path of a program written in Go, below `node_modules/.cache`; builds it from the Go proxy if necessary.
 * @param path of the program's package, without a version.
 * @param tags of the build, which can leave parts of it out.
 * @throws Error with a short message if it cannot be built.
 */
export async function obtainGoProgram(
  path: string,
  version: string,
  tags: readonly string[] = [],
): Promise<string> {
  const name = path.split('/').at(-1) as string
  return await obtain(name, version, ['-tags', tags.join(), `${path}@${version}`])
}

/**
 * The same for a program of this project.
 * @param directory of its `main.go`, whose `go.mod` and `go.sum` pin what it is built from.
 */
export async function buildGoProgram(name: string, directory: string): Promise<string> {
  const sources = ['main.go', 'go.mod', 'go.sum'].map(file => readFile(join(directory, file)))
  const digest = createHash('sha256').update(Buffer.concat(await Promise.all(sources)))
  return await obtain(name, digest.digest('hex').slice(0, 12), ['-mod=readonly', '.'], directory)
}

async function obtain(name: string, version: string, what: readonly string[], cwd?: string): Promise<string> {
  const directory = join(CACHE, `${name}-${version}`)
  const program = join(directory, name)
  if (existsSync(program)) return program
  const go = (await findOnPath(['go'])) ?? (await installGo(name))
  say(`Building ${name} ${version} from the Go proxy into node_modules/.cache: some minutes, once.`)
  try {
    await replaceCached(directory, async unfinished => {
      const env = { ...process.env, GOBIN: unfinished, GOFLAGS: '' }
      const options = { env, timeout: BUILD_TIMEOUT_MS, maxBuffer: 64 << 20, ...(cwd ? { cwd } : {}) }
      await promisify(execFile)(go, ['install', ...what], options)
    })
  } catch (error) {
    throw new Error(`${name} ${version} could not be built: ${reasonOf(error)}.`)
  }
  return program
}

async function installGo(name: string): Promise<string> {
  const problem = await installPackages('Go', GO)
  const go = await findOnPath(['go'])
  if (go) return go
  throw new Error(`${name} needs Go, but ${problem ?? 'it cannot be found'}. Install it and run this again.`)
}

/** Go reports downloads first, and the reason last. */
function reasonOf(error: unknown): string {
  const lines = String((error as { stderr?: unknown }).stderr ?? '')
    .trim()
    .split('\n')
  return lines.at(-1)?.replace(/\.$/, '') || findSystemCode(error) || 'timed out'
}
