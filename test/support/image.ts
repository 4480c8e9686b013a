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

/** The image's user, as `USER` and `chown` have it. */
const IMAGE_USER = { uid: 1000, gid: 1000 } as const
const OWNER = '1000:1000'
/** Where the official image has Node.js, and this one. */
const NODE = 'usr/local/bin/node'
const asRoot = process.getuid?.() === 0

/** What is installed here already, to the version, `installProduction` need not fetch again. */
const INSTALLATION = 'npm ci --omit=dev --ignore-scripts'

/** What the Dockerfile's steps make, in a directory that stands for the file system's root. */
export type Image = {
  /** Where a path of the image lies on this machine: `/data`. */
  inside(path: string): string
  readonly command: readonly string[]
  readonly healthcheck: readonly string[]
  /**
   * Starts a process as a container would, but for the init: with the image's user, directory and variables,
   * and with no others but `environment`. Absolute paths in variables are the image's.
   */
  start(command: readonly string[], environment?: Environment): Started
  remove(): Promise<void>
}

/**
 * Carries out the Dockerfile without Docker. What it installs from the system's packages is left out, and npm's
 * are those of this project that the lock file has for production; all else is done as it is written: what is
 * copied, the rights, the user where this is root's process. Throws TypeError at an instruction that it does not
 * know.
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

/** What its base image has: the same Node as everywhere here, readable for all. */
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
      throw new TypeError(`this does not know ${instruction.keyword} yet`)
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
  if (sources.length === 0) throw new Error(`there is nothing to COPY: ${words.join(' ')}`)
  for (const source of sources) {
    if (from === PROJECT && !allowed.has(source)) throw new Error(`.dockerignore leaves out ${source}`)
    await copyOne(join(from, source), destination, { move: from !== PROJECT && !existsSync(destination) })
  }
}

/** A directory of a stage that is over need not be there twice. */
async function copyOne(source: string, destination: string, { move }: { move: boolean }): Promise<void> {
  const isDirectory = (await stat(source)).isDirectory()
  if (isDirectory && move) return await rename(source, destination)
  await mkdir(destination, { recursive: true })
  if (isDirectory) await copyAll([`${source}/.`], destination)
  else await copyFile(source, join(destination, basename(source)))
}

/** With their rights; for thousands of files at a tenth of what Node takes. */
async function copyAll(paths: readonly string[], directory: string): Promise<void> {
  await promisify(execFile)('cp', ['-R', '-p', ...paths, directory])
}

/** One shell for all of it, as in a build; what is about the system and not about us is left out. */
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
    else if (/(?:^|\s)\//.test(command)) throw new TypeError(`this cannot run on another system: ${command}`)
    else await shell(command, building)
  }
}

/** Where both are in the image: `ln -s TARGET PATH`. */
async function link(words: readonly string[], { root, stage }: Building): Promise<void> {
  const [option, target = '', path = ''] = words
  if (option !== '-s') throw new TypeError(`this does not know ln ${option} yet`)
  await symlink(join(root, stage.name, target), join(root, stage.name, path))
}

async function giveToUser([owner]: readonly string[], path: string): Promise<void> {
  if (owner !== OWNER) throw new TypeError(`this does not know ${owner} yet`)
  if (asRoot) await chown(path, IMAGE_USER.uid, IMAGE_USER.gid)
}

type Locked = { readonly version: string; readonly dev?: true; readonly optional?: true }

/**
 * What `npm ci` makes of the lock file: its packages that are not for development, from this project's own.
 * @throws Error where this project's are others.
 */
async function installProduction(workdir: string): Promise<void> {
  const { packages } = JSON.parse(await readFile(join(workdir, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>
  }
  const copied = new Map<string, string[]>()
  for (const [path, { version, dev, optional }] of Object.entries(packages)) {
    if (path === '' || dev) continue
    const installed = await versionOf(join(PROJECT, path))
    // One for another system.
    if (installed === null && optional) continue
    if (installed !== version) throw new Error(`${path} is ${installed}, not ${version}: run \`npm ci\``)
    // What lies in another package comes with it.
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
      // Nobody but root can remove what lies in a directory that cannot be written.
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
