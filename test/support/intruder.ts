import { appendFileSync, closeSync, lstatSync, openSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { DuckDBInstance } from '@duckdb/node-api'

export type Orders = {
  readonly uid: number
  readonly gid: number
  /** Known in advance, so that it need not list directories. */
  readonly paths: readonly string[]
}

/** What another user of the machine could access, by path. */
export type Loot = {
  /** Directories that it could list, and those in which it created a file. */
  readonly listed: readonly string[]
  readonly entered: readonly string[]
  /** Files that it could open for reading, and for writing. */
  readonly read: readonly string[]
  readonly written: readonly string[]
  /** Databases on which it holds a read lock until it is killed. */
  readonly held: readonly string[]
}

/** Keeps databases with locks from being garbage-collected. */
const databases: unknown[] = []

// A separate process. Root loads all modules first, because root may read them anywhere.
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
