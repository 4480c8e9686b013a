import { execFile, spawn } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import {
  chmod,
  chown,
  copyFile,
  mkdir,
  mkdtemp,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, isAbsolute, join } from 'node:path'
import { promisify } from 'node:util'
import { onTestFinished } from 'vitest'
import { type Instruction, PROJECT, readBuildContext, readDockerfile, type Stage } from './docker.ts'
import type { Ended, Environment, Started } from './project.ts'

/** The image's user, as in `USER` and `chown`. */
const IMAGE_USER = { uid: 1000, gid: 1000 } as const
const OWNER = '1000:1000'
/** Path of Node.js in the official image and in this one. */
const NODE = 'usr/local/bin/node'
const asRoot = process.getuid?.() === 0

/** `installProduction` replaces this command: the same versions are already installed here. */
const INSTALLATION = 'npm ci --omit=dev --ignore-scripts'

/** The result of the Dockerfile's steps, in a directory that represents the root of the file system. */
export type Image = {
  /** The path on this machine for a path of the image, such as `/data`. */
  inside(path: string): string
  readonly command: readonly string[]
  readonly healthcheck: readonly string[]
  /**
   * Starts a process as a container would, but without an init process: with the image's user, directory and
   * variables plus `environment`. Absolute paths in variables are paths of the image.
   */
  start(command: readonly string[], environment?: Environment): Started
  remove(): Promise<void>
}

/**
 * Builds the Dockerfile without Docker. System packages are skipped. npm packages are copied from this project, as
 * far as the lock file lists them for production. Everything else is done as written: copies, permissions, and the
 * user if this process is root's.
 * @throws TypeError at an instruction that it does not support.
 */
export async function buildImage(): Promise<Image> {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'editais-sync-image-')))
  await chmod(root, 0o755)
  const allowed = new Set((await readBuildContext()).flatMap(pattern => globSync(pattern, { cwd: PROJECT })))
  const stages = await readDockerfile()
  await mkdir(join(root, 'tmp'))
  await giveToUser([OWNER], join(root, 'tmp'))
  for (const stage of stages) {
    await mkdir(join(root, stage.name, 'usr/local/bin'), { recursive: true })
    if (stage.name === 'dependencies') await provideNode(join(root, stage.name, NODE))
    for (const instruction of stage.instructions) await carryOut(instruction, { root, stage, allowed })
  }
  return imageOf(root, stages.at(-1) as Stage)
}

/** Provides the base image's Node: the one that runs the tests, readable for all. */
async function provideNode(path: string): Promise<void> {
  await copyFile(process.execPath, path)
  await chmod(path, 0o755)
}

type Building = { readonly root: string; readonly stage: Stage; readonly allowed: ReadonlySet<string> }

async function carryOut(instruction: Instruction, building: Building): Promise<void> {
  const { root, stage } = building
  switch (instruction.keyword) {
    case 'WORKDIR':
      await mkdir(join(root, stage.name, instruction.words[0] ?? ''), { recursive: true })
      return
    case 'COPY':
      return await copy(instruction, building)
    case 'RUN':
      return await run(instruction.text, building)
    case 'ENV':
    case 'USER':
    case 'EXPOSE':
    case 'HEALTHCHECK':
    case 'ENTRYPOINT':
    case 'CMD':
    case 'ARG':
    case 'LABEL':
      return
    default:
      throw new TypeError(`not implemented: ${instruction.keyword}`)
  }
}

function workdirOf({ root, stage }: Pick<Building, 'root' | 'stage'>): string {
  const [path = '/'] = stage.instructions.find(({ keyword }) => keyword === 'WORKDIR')?.words ?? []
  return join(root, stage.name, path)
}

async function copy({ words, flags }: Instruction, building: Building): Promise<void> {
  const { root, allowed } = building
  const last = words.at(-1) ?? ''
  const destination = isAbsolute(last)
    ? join(root, building.stage.name, last)
    : join(workdirOf(building), last)
  const from = flags.from === undefined ? PROJECT : join(root, flags.from)
  const sources = words
    .slice(0, -1)
    .flatMap(word => globSync(isAbsolute(word) ? `.${word}` : word, { cwd: from }))
  if (sources.length === 0) throw new Error(`no files to COPY: ${words.join(' ')}`)
  for (const source of sources) {
    if (from === PROJECT && !allowed.has(source)) throw new Error(`.dockerignore excludes ${source}`)
    await copyOne(join(from, source), destination, { move: from !== PROJECT && !existsSync(destination) })
  }
}

/** A directory of a finished stage may be moved instead of copied. */
async function copyOne(source: string, destination: string, { move }: { move: boolean }): Promise<void> {
  const isDirectory = (await stat(source)).isDirectory()
  if (isDirectory && move) return await rename(source, destination)
  await mkdir(destination, { recursive: true })
  if (isDirectory) await copyAll([`${source}/.`], destination)
  else await copyFile(source, join(destination, basename(source)))
}

/** Copies with permissions; for thousands of files, ten times as fast as Node. */
async function copyAll(paths: readonly string[], directory: string): Promise<void> {
  await promisify(execFile)('cp', ['-R', '-p', ...paths, directory])
}

/** Runs the commands in one shell, as a build does; commands for the system are skipped. */
async function run(text: string, building: Building): Promise<void> {
  const commands = text
    .replaceAll(/\\\n/g, ' ')
    .split('&&')
    .map(command => command.trim())
  for (const command of commands) {
    if (/^apt-get |^useradd |^rm -rf \/var\/lib\/apt/.test(command)) continue
    const [program, ...words] = command.split(/\s+/)
    const path = join(building.root, building.stage.name, words.at(-1) ?? '')
    if (program === 'mkdir') await mkdir(path)
    else if (program === 'chown') await giveToUser(words, path)
    else if (program === 'ln') await link(words, building)
    else if (command === INSTALLATION) await installProduction(workdirOf(building))
    else if (/(?:^|\s)\//.test(command)) throw new TypeError(`not implemented outside the image: ${command}`)
    else await shell(command, building)
  }
}

/** `ln -s TARGET PATH`, with both paths in the image. */
async function link(words: readonly string[], { root, stage }: Building): Promise<void> {
  const [option, target = '', path = ''] = words
  if (option !== '-s') throw new TypeError(`not implemented: ln ${option}`)
  await symlink(join(root, stage.name, target), join(root, stage.name, path))
}

async function giveToUser([owner]: readonly string[], path: string): Promise<void> {
  if (owner !== OWNER) throw new TypeError(`not implemented: chown ${owner}`)
  if (asRoot) await chown(path, IMAGE_USER.uid, IMAGE_USER.gid)
}

type Locked = {
  readonly version: string
  readonly dev?: true
  readonly optional?: true
  /** Of a workspace. */
  readonly link?: true
}

/**
 * Does the work of `npm ci --omit=dev`: copies the lock file's production packages from this project.
 * @throws Error if this project has other versions.
 */
async function installProduction(workdir: string): Promise<void> {
  const { packages } = JSON.parse(await readFile(join(workdir, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>
  }
  const copied = new Map<string, string[]>()
  for (const [path, { version, dev, optional, link }] of Object.entries(packages)) {
    if (dev || link) continue
    // This project and its workspaces; the image has no folder of these, so npm leaves them out.
    if (!path.startsWith('node_modules/')) continue
    const installed = await versionOf(join(PROJECT, path))
    // An optional package for another system.
    if (installed === null && optional) continue
    if (installed !== version)
      throw new Error(`${path} has version ${installed}, not ${version}. Run \`npm ci\`.`)
    // Nested packages are copied with their parent.
    if (path.lastIndexOf('node_modules/') > 0) continue
    const parent = dirname(path)
    copied.set(parent, [...(copied.get(parent) ?? []), join(PROJECT, path)])
  }
  for (const [parent, paths] of copied) {
    await mkdir(join(workdir, parent), { recursive: true })
    await copyAll(paths, join(workdir, parent))
  }
}

async function versionOf(directory: string): Promise<string | null> {
  const text = await readFile(join(directory, 'package.json'), 'utf8').catch(() => null)
  return text === null ? null : (JSON.parse(text) as { version: string }).version
}

async function shell(command: string, building: Building): Promise<void> {
  await promisify(execFile)('/bin/sh', ['-ec', command], { cwd: workdirOf(building) })
}

function imageOf(root: string, stage: Stage): Image {
  const wordsOf = (name: string) => stage.instructions.find(({ keyword }) => keyword === name)?.words ?? []
  const inside = (path: string) => join(root, stage.name, path)
  const own = Object.fromEntries(wordsOf('ENV').map(word => word.split('=') as [string, string]))
  return {
    inside,
    command: wordsOf('CMD'),
    healthcheck: wordsOf('HEALTHCHECK'),
    start(command, environment = {}) {
      const variables = Object.entries({ ...own, ...environment })
      const env = Object.fromEntries(
        variables.map(([name, text]) => [name, text.startsWith('/') ? inside(text) : text]),
      )
      return started(command, {
        cwd: workdirOf({ root, stage }),
        env: {
          ...{
            PATH: `${inside('/usr/local/bin')}:/usr/bin:/bin`,
            HOME: '/nonexistent',
            TMPDIR: join(root, 'tmp'),
          },
          ...env,
        },
      })
    },
    async remove() {
      // Only root can remove files from a read-only directory.
      if (!asRoot) await promisify(execFile)('chmod', ['-R', 'u+w', root])
      await rm(root, { recursive: true, force: true })
    },
  }
}

function started(words: readonly string[], options: { cwd: string; env: Record<string, string> }): Started {
  const [program = '', ...args] = words
  const child = spawn(program, args, {
    ...options,
    ...(asRoot ? IMAGE_USER : {}),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const ended = new Promise<Ended>((resolve, reject) => {
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    child.on('error', reject)
    child.on('close', code => resolve({ code, stdout, stderr }))
  })
  return { child, ended }
}
