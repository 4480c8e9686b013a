import { execFile } from 'node:child_process'
import { cp, readFile, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type Ended, type Environment, temporaryDirectory } from './project.ts'

const PROJECT = join(import.meta.dirname, '../..')
/** The files that commands need; no tests and no data. */
const COPIED = ['package.json', 'config', 'jobs', 'schema', 'src'] as const
/** A developer's own companies are not part of a version. */
const LEFT_OUT: ReadonlySet<string> = new Set(['companies.yaml'])

/** `from` must occur exactly once in `file`, a path from the project's root. */
export type Replacement = { readonly file: string; readonly from: string; readonly to: string }

/**
 * Makes another version of the program: a copy of this one with some texts replaced, removed after the test. It uses
 * this one's libraries.
 * @returns its directory; `runIn` runs its commands.
 * @throws Error that names the file if a text does not occur exactly once.
 */
export async function patchedCopy(replacements: readonly Replacement[]): Promise<string> {
  const copy = await temporaryDirectory()
  const filter = (path: string) => !LEFT_OUT.has(basename(path))
  for (const name of COPIED) await cp(join(PROJECT, name), join(copy, name), { recursive: true, filter })
  await symlink(join(PROJECT, 'node_modules'), join(copy, 'node_modules'))
  for (const { file, from, to } of replacements) {
    const path = join(copy, file)
    const parts = (await readFile(path, 'utf8')).split(from)
    if (parts.length !== 2) {
      throw new Error(`${file}: expected once, found ${parts.length - 1} times: ${from}`)
    }
    await writeFile(path, parts.join(to))
  }
  return copy
}

/** Runs a command of such a copy to its end, in a directory without a `.env`. */
export function runIn(copy: string, args: readonly string[], environment: Environment): Promise<Ended> {
  const system = { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: tmpdir() }
  // Its own cache: compiled code of a copy is useless afterwards.
  const env = { ...system, NODE_COMPILE_CACHE: join(copy, 'compiled'), ...environment }
  const main = join(copy, 'src/cli/main.js')
  return new Promise(resolve => {
    const child = execFile(process.execPath, [main, ...args], { cwd: copy, env }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    )
    onTestFinished(() => void child.kill('SIGKILL'))
  })
}
