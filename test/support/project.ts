import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { RunReport } from '#src/core/company/run_report.ts'
import type { Row } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { inWorkerDatabase } from './worker_database.ts'

export const MAIN = join(import.meta.dirname, '../../src/cli/main.js')

export type Environment = Readonly<Record<string, string>>
export type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string }

/** A directory for the test, removed afterwards. */
export async function temporaryDirectory(): Promise<string> {
  const directory = await realpath(await mkdtemp(join(tmpdir(), 'editais-sync-test-')))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** The settings of a test: few retries, and nothing from the developer's environment. */
export function settingsFor(options: {
  url: string
  key: string
  dataDir: string
  company?: string
}): Environment {
  return {
    API_BASE_URL: options.url,
    API_KEY: options.key,
    DATA_DIR: options.dataDir,
    COMPANY: options.company ?? 'acme',
    API_RETRIES: '2',
    API_TIMEOUT_MS: '5000',
    LOG_LEVEL: 'warn',
  }
}

/**
 * The environment of every process of a test. It names the compile cache that commands use anyway: if it is set
 * here, it also has the first module, so Node need not load its TypeScript parser for it.
 */
export function surroundings(): Environment {
  const { PATH = '', HOME = '' } = process.env
  const directory = tmpdir()
  return { PATH, HOME, TMPDIR: directory, NODE_COMPILE_CACHE: join(directory, 'node-compile-cache') }
}

export type Started = { readonly child: ChildProcess; readonly ended: Promise<Ended> }

/** Starts a command as npm would, in a directory without a `.env`. */
export function startCommand(
  args: readonly string[],
  environment: Environment,
  cwd: string,
  stdin: 'ignore' | 'pipe' = 'ignore',
): Started {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd,
    env: { ...surroundings(), ...environment },
    stdio: [stdin, 'pipe', 'pipe'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const ended = new Promise<Ended>((resolve, reject) => {
    let stdout = ''
    let stderr = ''
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    child.on('error', reject)
    child.on('close', code => resolve({ code, stdout, stderr }))
  })
  return { child, ended }
}

export async function runCommand(args: readonly string[], environment: Environment): Promise<Ended> {
  return await startCommand(args, environment, environment.DATA_DIR ?? tmpdir()).ended
}

/** Runs `sync --json`. Throws an Error with its output unless it exits with `code`. */
export async function syncOnce(
  environment: Environment,
  args: readonly string[] = [],
  code = 0,
  run = runCommand,
): Promise<RunReport> {
  const ended = await run(['sync', '--json', ...args], environment)
  if (ended.code !== code) {
    throw new Error(`sync exited with ${ended.code}, not ${code}:\n${ended.stdout}\n${ended.stderr}`)
  }
  return JSON.parse(ended.stdout) as RunReport
}

export function companyDirectory(environment: Environment): string {
  return join(environment.DATA_DIR ?? '', environment.COMPANY ?? 'default')
}

/** Rows of the latest snapshot, read with DuckDB through its catalog. */
export async function queryLatest<T extends Row>(environment: Environment, sql: string): Promise<T[]> {
  const latest = await realpath(join(companyDirectory(environment), 'lake/latest'))
  return await inWorkerDatabase(async db => {
    await db.run(`ATTACH ${literal(join(latest, 'catalog.duckdb'))} AS latest (READ_ONLY)`)
    try {
      await db.run('USE latest')
      return await db.rows<T>(sql)
    } finally {
      await db.run('USE memory')
      await db.run('DETACH latest')
    }
  })
}

/** The bytes of every file below a directory, by path. */
export async function filesBelow(directory: string): Promise<Map<string, Buffer>> {
  const files = new Map<string, Buffer>()
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) {
      const path = join(entry.parentPath, entry.name)
      files.set(path, await readFile(path))
    }
  }
  return files
}
