import { execFile } from 'node:child_process'
import { copyFile, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findSystemCode } from '#src/lib/errors.ts'
import { CACHE, replaceCached } from './cached.ts'
import { findOnPath, installPackages, type Packages, say } from './system_packages.ts'

const JVMS = '/usr/lib/jvm'
const MAVEN: Packages = { 'apt-get': ['maven'], dnf: ['maven'], apk: ['maven'], brew: ['maven'] }
const JAVA: Packages = {
  'apt-get': ['openjdk-21-jdk-headless'],
  dnf: ['java-21-openjdk-devel'],
  apk: ['openjdk21-jdk'],
  brew: ['openjdk'],
}
const DOWNLOAD_TIMEOUT_MS = 600_000

/**
 * The directory with the jars of a Maven project's dependencies; downloads them if necessary.
 * @param pom the project, whose versions are pinned.
 * @param unpack prepares what was downloaded.
 * @throws Error with a short message if they cannot be downloaded.
 */
export async function obtainJars(
  name: string,
  pom: string,
  unpack: (directory: string) => Promise<void> = async () => {},
): Promise<string> {
  const directory = join(CACHE, name.replaceAll(' ', '-'))
  const downloaded = await readFile(join(directory, 'pom.xml'), 'utf8').catch(() => null)
  if (downloaded === (await readFile(pom, 'utf8'))) return directory
  const maven = (await findOnPath(['mvn'])) ?? (await installMaven())
  say(`Downloading ${name} from Maven Central into node_modules/.cache.`)
  try {
    await replaceCached(directory, async unfinished => {
      const copy = [
        'dependency:copy-dependencies',
        `-DoutputDirectory=${unfinished}`,
        '-DincludeScope=runtime',
      ]
      const options = { timeout: DOWNLOAD_TIMEOUT_MS, maxBuffer: 64 << 20 }
      await promisify(execFile)(maven, ['--quiet', '--batch-mode', '--file', pom, ...copy], options)
      await unpack(unfinished)
      await copyFile(pom, join(unfinished, 'pom.xml'))
    })
  } catch (error) {
    throw new Error(`${name} could not be downloaded from Maven Central: ${reasonOf(error)}.`)
  }
  return directory
}

async function installMaven(): Promise<string> {
  const problem = await installPackages('Maven', MAVEN)
  const maven = await findOnPath(['mvn'])
  if (maven) return maven
  throw new Error(`Maven is needed, but ${problem ?? 'it cannot be found'}. Install it and run this again.`)
}

/**
 * The path of the newest fitting `java` on this machine; installs one if there is none.
 * @param least the oldest version that fits.
 * @param below the first version that no longer fits.
 * @throws Error with a short message if none can be installed.
 */
export async function obtainJava(least: number, below = Number.POSITIVE_INFINITY): Promise<string> {
  const found = await newestJava(least, below)
  if (found) return found
  const problem = await installPackages(`Java ${least}`, JAVA)
  const installed = await newestJava(least, below)
  if (installed) return installed
  throw new Error(`Java ${least} is needed, but ${problem ?? 'it cannot be found'}. Install it.`)
}

async function newestJava(least: number, below: number): Promise<string | null> {
  const { JAVA_HOME } = process.env
  const onPath = await findOnPath(['java'])
  const homes = (await readdir(JVMS).catch(() => [])).map(name => join(JVMS, name))
  const places = [...(JAVA_HOME ? [JAVA_HOME] : []), ...homes].map(home => join(home, 'bin/java'))
  const found = [...(onPath ? [onPath] : []), ...places].map(async path => ({
    path,
    version: await versionOf(path),
  }))
  const fitting = (await Promise.all(found)).filter(({ version }) => version >= least && version < below)
  return fitting.sort((one, other) => other.version - one.version)[0]?.path ?? null
}

/** 0 if it does not run. */
async function versionOf(java: string): Promise<number> {
  try {
    const { stderr } = await promisify(execFile)(java, ['-version'])
    return Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0)
  } catch {
    return 0
  }
}

/** Maven writes its errors to the standard output. */
function reasonOf(error: unknown): string {
  const { stdout = '' } = error as { stdout?: string }
  const line = stdout.split('\n').find(one => one.startsWith('[ERROR]'))
  return line?.replace('[ERROR] ', '').replace(/\.$/, '') ?? findSystemCode(error) ?? 'timed out'
}
