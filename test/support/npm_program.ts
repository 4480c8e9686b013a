import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { messageOf } from '#src/lib/errors.ts'
import { CACHE, replaceCached } from './cached.ts'
import { say } from './system_packages.ts'

const INSTALL_TIMEOUT_MS = 300_000
const PIN = 'installed.json'

/** A program from npm in a directory of its own, because it is large and only one test runs it. */
export type NpmProgram = {
  readonly package: string
  readonly version: string
  /** A day: what it depends on is as it was then. */
  readonly before: string
  /** In the package. */
  readonly script: string
}

/**
 * The script of a program below `node_modules/.cache`; installs it if necessary, without running setup code.
 * @throws Error with a short message if it cannot be installed.
 */
export async function obtainNpmProgram(program: NpmProgram): Promise<string> {
  const { package: name, version, before, script } = program
  const directory = join(CACHE, name.replace(/\W+/g, '-').replace(/^-/, ''))
  const pin = JSON.stringify({ name, version, before })
  const installed = join(directory, 'node_modules', name, script)
  if ((await readFile(join(directory, PIN), 'utf8').catch(() => null)) === pin) return installed
  say(`Installing ${name} ${version} from npm into node_modules/.cache.`)
  try {
    await replaceCached(directory, async unfinished => {
      const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--before', before]
      await promisify(execFile)(
        'npm',
        ['install', '--prefix', unfinished, ...options, `${name}@${version}`],
        // Outside the project, whose own package.json it must not read.
        { cwd: unfinished, timeout: INSTALL_TIMEOUT_MS },
      )
      await writeFile(join(unfinished, PIN), pin)
    })
  } catch (error) {
    throw new Error(
      `${name} could not be installed from npm: ${messageOf(error).split('\n')[0]} Check the network.`,
    )
  }
  return installed
}
