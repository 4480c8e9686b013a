import { execFile } from 'node:child_process'
import { copyFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findSystemCode } from '#src/lib/errors.ts'
import { CACHE, replaceCached } from './cached.ts'
import { findOnPath, installPackages, type Packages, say } from './system_packages.ts'

const PYTHONS = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11']
const PACKAGES: Packages = {
  'apt-get': ['python3', 'python3-venv'],
  dnf: ['python3'],
  apk: ['python3'],
  brew: ['python'],
}
const INSTALL_TIMEOUT_MS = 300_000

/** Packages from PyPI in an environment of their own. */
export type Needed = {
  /** The name of what is installed, with its version. */
  readonly name: string
  /** Pinned, with hashes. */
  readonly requirements: string
  /** Imported to find out whether the environment still works. */
  readonly module: string
  /** The oldest Python that has them. */
  readonly least: string
  /** The first Python that no longer has them, if any. */
  readonly below?: string
  /** What needs it, for messages: a subject. */
  readonly user: string
}

/**
 * The Python of an environment below `node_modules/.cache` with these packages; installs them from PyPI if necessary.
 * @throws Error with a short message if they cannot be installed.
 */
export async function obtainPython(needed: Needed): Promise<string> {
  const { name, requirements } = needed
  const directory = join(CACHE, name.replaceAll(' ', '-'))
  const installed = join(directory, 'bin/python')
  if (await isInstalled(needed, directory)) return installed
  const python = (await findPython(needed)) ?? (await installPython(needed))
  say(`Installing ${name} from PyPI into node_modules/.cache.`)
  try {
    await replaceCached(directory, async unfinished => {
      await run(python, ['-m', 'venv', unfinished])
      await run(join(unfinished, 'bin/python'), [
        ...['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input'],
        // Wheels only: nothing is built, so no setup code runs.
        ...['--require-hashes', '--only-binary', ':all:', '--requirement', requirements],
      ])
      await copyFile(requirements, join(unfinished, 'requirements.txt'))
    })
  } catch (error) {
    throw new Error(
      `${name} could not be installed from PyPI: ${reasonOf(error)}. Check the network, or set PIP_INDEX_URL to a mirror.`,
    )
  }
  return installed
}

/** True if it matches these requirements and its Python still works. */
async function isInstalled({ requirements, module }: Needed, directory: string): Promise<boolean> {
  const wanted = await readFile(requirements, 'utf8')
  const installed = await readFile(join(directory, 'requirements.txt'), 'utf8').catch(() => null)
  return installed === wanted && (await succeeds(join(directory, 'bin/python'), ['-c', `import ${module}`]))
}

async function findPython({ least, below }: Needed): Promise<string | null> {
  const tuple = (version: string) => `(${version.replace('.', ', ')})`
  const isTooNew = below === undefined ? 'False' : `sys.version_info >= ${tuple(below)}`
  // Succeeds if this Python can create an environment.
  const probe = `import sys, venv, ensurepip; sys.exit(sys.version_info < ${tuple(least)} or ${isTooNew})`
  for (const name of PYTHONS) {
    const path = await findOnPath([name])
    if (path && (await succeeds(path, ['-c', probe]))) return path
  }
  return null
}

async function installPython(needed: Needed): Promise<string> {
  const { least, below, user } = needed
  const versions = below === undefined ? `${least} or later` : `from ${least} to before ${below}`
  const problem = await installPackages(`Python ${versions} with venv`, PACKAGES)
  const python = problem === null ? await findPython(needed) : null
  if (python) return python
  throw new Error(
    `${user} needs Python ${versions} with venv and pip, but ${problem ?? 'the installed Python is another one'}. Install it (apt-get install python3 python3-venv) and run this again.`,
  )
}

async function succeeds(command: string, args: readonly string[]): Promise<boolean> {
  return await run(command, args).then(
    () => true,
    () => false,
  )
}

async function run(command: string, args: readonly string[]): Promise<void> {
  await promisify(execFile)(command, args, { timeout: INSTALL_TIMEOUT_MS, maxBuffer: 64 << 20 })
}

/** pip prints explanations after the error line. */
function reasonOf(error: unknown): string {
  const lines = String((error as { stderr?: unknown }).stderr ?? '')
    .trim()
    .split('\n')
  const line = lines.findLast(one => one.startsWith('ERROR:')) ?? lines.at(-1)
  return line?.replace(/\.$/, '') || findSystemCode(error) || 'timed out'
}
