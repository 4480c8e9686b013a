import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import type * as Package from '#clients/typescript/src/index.ts'
import { findSystemCode } from '#src/lib/errors.ts'
import { until } from './daemon.ts'
import { surroundings, temporaryDirectory } from './project.ts'

const ROOT = join(import.meta.dirname, '../..')
const BUILT_WITHIN_MS = 50_000
const NAME = '@editais-sync/client'

/** What a program gets that imports the package. */
export type ClientPackage = typeof Package

/** A project that has the package of `clients/typescript/` as npm installs it, and nothing else. */
export async function projectWithClient(): Promise<string> {
  const directory = await temporaryDirectory()
  await cp(await installed(), directory, { recursive: true })
  return directory
}

/** The package, loaded from such a project. */
export async function loadClient(): Promise<ClientPackage> {
  const entry = join(await installed(), 'node_modules', NAME, 'dist/index.js')
  return await import(pathToFileURL(entry).href)
}

/** Made once for all tests of this run of vitest: by the first of its workers, while the others wait. */
async function installed(): Promise<string> {
  const place = join(inject('runDirectory'), 'client')
  const project = join(place, 'project')
  try {
    await mkdir(place)
    await install(place, project)
  } catch (error) {
    if (findSystemCode(error) !== 'EEXIST') throw error
    await until(() => existsSync(project), { what: 'the package of the client', withinMs: BUILT_WITHIN_MS })
  }
  return project
}

/** Builds and packs it as for a release, and installs it without a registry: it has no dependencies. */
async function install(place: string, project: string): Promise<void> {
  const unfinished = join(place, 'unfinished')
  await mkdir(unfinished)
  await writeFile(join(unfinished, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  await npm(['pack', '--workspace', NAME, '--pack-destination', place], ROOT, place)
  const tarball = (await readdir(place)).find(name => name.endsWith('.tgz')) as string
  await npm(['install', '--offline', join(place, tarball)], unfinished, place)
  await rename(unfinished, project)
}

async function npm(args: readonly string[], cwd: string, place: string): Promise<void> {
  // With a cache of its own: it has nothing that npm would otherwise have to get.
  const env = { ...surroundings(), npm_config_cache: join(place, 'cache') }
  await promisify(execFile)('npm', args, { cwd, env, timeout: BUILT_WITHIN_MS })
}
