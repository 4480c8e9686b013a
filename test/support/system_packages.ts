import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { promisify } from 'node:util'
import { getMessage } from '#src/lib/errors.ts'

const INSTALL_TIMEOUT_MS = 300_000

type Tool = { readonly command: string; readonly args: readonly string[] }
type PackageManager = {
  readonly install: readonly string[]
  /** Updates the list of packages, unless an installation does so itself. */
  readonly update?: readonly string[]
  /** Installs for the user and refuses to run as root. */
  readonly asUser?: true
}

const PACKAGE_MANAGERS = {
  // Another installation may be under way.
  'apt-get': {
    install: ['-o', 'DPkg::Lock::Timeout=300', 'install', '-y', '--no-install-recommends'],
    update: ['-o', 'DPkg::Lock::Timeout=300', 'update'],
  },
  dnf: { install: ['install', '-y'] },
  apk: { install: ['add', '--no-cache'] },
  brew: { install: ['install'], asUser: true },
} as const satisfies Record<string, PackageManager>

/** What to install, by package manager. */
export type Packages = Readonly<Record<keyof typeof PACKAGE_MANAGERS, readonly string[]>>

/** The path of the first of these commands that is installed; null if none is. */
export async function findOnPath(names: readonly string[]): Promise<string | null> {
  for (const name of names) {
    for (const directory of (process.env.PATH ?? '').split(delimiter).filter(Boolean)) {
      const path = join(directory, name)
      const runs = await access(path, constants.X_OK).then(
        () => true,
        () => false,
      )
      if (runs) return path
    }
  }
  return null
}

/** The user was asked, and refused. */
export const REFUSED = 'was refused'

/**
 * Asks on a terminal before something is installed or started. Elsewhere, as in CI, nobody can answer: it only reports.
 * @param command what would be run.
 * @returns false if the user refuses.
 */
export async function mayRun(
  what: string,
  command: string,
  terminal: Terminal = { input: process.stdin, output: process.stderr },
): Promise<boolean> {
  const { input, output } = terminal
  if (!input.isTTY || !output.isTTY) {
    output.write(`${what} is not installed: running ${command}.\n`)
    return true
  }
  const lines = createInterface({ input, output })
  try {
    const answer = await lines.question(`${what} is not installed. Run ${command}? [Y/n] `)
    return !/^\s*n/i.test(answer)
  } finally {
    lines.close()
  }
}

export type Terminal = {
  readonly input: NodeJS.ReadableStream & { isTTY?: boolean }
  readonly output: NodeJS.WritableStream & { isTTY?: boolean }
}

/**
 * Installs packages for the tests with the system's package manager, unless the user refuses.
 * @param what the name to print.
 * @returns null, REFUSED, or the reason why the installation failed.
 */
export async function installPackages(what: string, packages: Packages): Promise<string | null> {
  for (const [name, manager] of Object.entries<PackageManager>(PACKAGE_MANAGERS)) {
    if (!(await findOnPath([name]))) continue
    const prefix = manager.asUser ? [] : await asRoot()
    if (!prefix) return `${name} needs root (sudo asks for a password here)`
    const install = command(prefix, name, [...manager.install, ...packages[name as keyof Packages]])
    if (!(await mayRun(what, [install.command, ...install.args].join(' ')))) return REFUSED
    const problem = await run(install)
    if (problem === null || !manager.update) return problem
    await run(command(prefix, name, manager.update))
    return await run(install)
  }
  return 'no supported package manager was found'
}

/** Reports side effects of the tests on stderr. */
export function say(line: string): void {
  process.stderr.write(`${line}\n`)
}

/** The prefix to run a command as root; null if this user cannot. */
async function asRoot(): Promise<string[] | null> {
  if (process.getuid?.() === 0) return []
  return (await run({ command: 'sudo', args: ['-n', 'true'] })) === null ? ['sudo', '-n'] : null
}

function command(prefix: readonly string[], name: string, args: readonly string[]): Tool {
  const [first = name, ...rest] = [...prefix, name, ...args]
  return { command: first, args: rest }
}

async function run({ command, args }: Tool): Promise<string | null> {
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    await promisify(execFile)(command, args, { env, timeout: INSTALL_TIMEOUT_MS, maxBuffer: 64 << 20 })
    return null
  } catch (error) {
    const output = String((error as { stderr?: unknown }).stderr ?? '').trim()
    return `${command} failed (${output.split('\n').at(-1) || getMessage(error)})`
  }
}
