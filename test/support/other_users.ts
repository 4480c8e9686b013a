import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { inject, onTestFinished } from 'vitest'
import type { Loot } from './intruder.ts'
import { type Ended, type Environment, surroundings } from './project.ts'

const MAIN = join(import.meta.dirname, '../../src/cli/main.js')
const INTRUDER = join(import.meta.dirname, 'intruder.ts')

/** Only root can switch to another user. */
export const isRoot = process.getuid?.() === 0

/** The worker's user; root if an ordinary user cannot read the project. */
export const WORKER = isRoot && canRun(1000) ? 1000 : (process.getuid?.() ?? 0)
/** The user `nobody`, a member of no group. */
export const STRANGER = 65_534

function canRun(id: number): boolean {
  const { status } = spawnSync(process.execPath, [MAIN, 'sync', '--help'], {
    uid: id,
    gid: id,
    env: { PATH: process.env.PATH ?? '' },
  })
  return status === 0
}

/** A compile cache that the worker's user can fill, and nobody else can; without one, a command takes twice as long. */
function ownCompileCache(): string {
  const path = join(inject('runDirectory'), `compile-cache-${WORKER}`)
  mkdirSync(path, { recursive: true, mode: 0o700 })
  if (isRoot) chownSync(path, WORKER, WORKER)
  return path
}

/** Starts a command as the worker's user. Files must be private whatever the umask is. */
export function startWorker(args: readonly string[], environment: Environment): ChildProcess {
  const command = ['-c', 'umask 000; exec "$@"', 'sh', process.execPath, MAIN, ...args]
  const child = spawn('/bin/sh', command, {
    cwd: environment.DATA_DIR,
    env: { ...surroundings(), NODE_COMPILE_CACHE: ownCompileCache(), ...environment },
    ...(isRoot ? { uid: WORKER, gid: WORKER } : {}),
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

export async function runWorker(args: readonly string[], environment: Environment): Promise<Ended> {
  const child = startWorker(args, environment)
  let [stdout, stderr] = ['', '']
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = await once(child, 'close')
  return { code, stdout, stderr }
}

/** Tries to access a directory as another user. Holds the locks that it could take until `leave`. */
export async function intrude(
  directory: string,
  user: { uid: number; gid: number },
): Promise<Loot & { leave(): Promise<void> }> {
  const orders = { ...user, paths: [directory, ...(await pathsBelow(directory))] }
  const child = spawn(process.execPath, [INTRUDER, JSON.stringify(orders)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const leave = async () => {
    child.kill('SIGKILL')
    await once(child, 'close')
  }
  let output = ''
  for await (const part of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    output += part
    if (output.endsWith('\n')) return { ...(JSON.parse(output) as Loot), leave }
  }
  throw new Error('the intruder process ended early')
}

export async function pathsBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries
    .filter(entry => !entry.isSymbolicLink())
    .map(entry => join(entry.parentPath, entry.name))
    .sort()
}

/** Modes by path. */
export async function modesBelow(directory: string): Promise<Map<string, string>> {
  const paths = [directory, ...(await pathsBelow(directory))]
  const modes = paths.map(async path => [path, ((await lstat(path)).mode & 0o777).toString(8)] as const)
  return new Map(await Promise.all(modes))
}
