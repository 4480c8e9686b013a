import { appendFileSync, closeSync, lstatSync, openSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { DuckDBInstance } from '@duckdb/node-api'

export type Orders = {
  readonly uid: number
  readonly gid: number
  /** It knows them beforehand, so it need not list a directory to find what is in it. */
  readonly paths: readonly string[]
}

/** What a user of the machine got at, by path. */
export type Loot = {
  /** Directories whose names it saw, and those that it put a file in. */
  readonly listed: readonly string[]
  readonly entered: readonly string[]
  /** Files that it opened to read, and to write. */
  readonly read: readonly string[]
  readonly written: readonly string[]
  /** Databases that it keeps a read lock on until it is killed. */
  readonly held: readonly string[]
}

/** Kept, so that nothing is collected that holds a lock. */
const databases: unknown[] = []

// A process of its own. All that it needs is loaded by root, who may read it wherever it lies.
if (import.meta.main) {
  const { uid, gid, paths } = JSON.parse(process.argv[2] ?? '') as Orders
  const isDirectory = new Map(paths.map(path => [path, lstatSync(path).isDirectory()]))
  const directories = paths.filter(path => isDirectory.get(path))
  const files = paths.filter(path => !isDirectory.get(path))
  process.setgroups?.([])
  process.setgid?.(gid)
  process.setuid?.(uid)
  const loot: Loot = {
    listed: await those(directories, path => readdirSync(path)),
    entered: await those(directories, path => plant(join(path, 'intruder'))),
    read: await those(files, path => closeSync(openSync(path, 'r'))),
    written: await those(files, path => appendFileSync(path, '')),
    held: await those(files, hold),
  }
  process.stdout.write(`${JSON.stringify(loot)}\n`)
  process.stdin.resume()
}

async function those(paths: readonly string[], act: (path: string) => unknown): Promise<string[]> {
  const successes: string[] = []
  for (const path of paths) {
    try {
      await act(path)
      successes.push(path)
    } catch {}
  }
  return successes
}

function plant(path: string): void {
  writeFileSync(path, '')
  rmSync(path)
}

async function hold(path: string): Promise<void> {
  if (path.endsWith('.duckdb')) {
    databases.push(await DuckDBInstance.create(path, { access_mode: 'READ_ONLY' }))
    return
  }
  const db = new DatabaseSync(path, { readOnly: true })
  db.exec('BEGIN')
  db.prepare('SELECT count(*) FROM sqlite_master').get()
  databases.push(db)
}
