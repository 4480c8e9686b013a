import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
} from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import type { Operation } from '#src/lib/durable.ts'
import type { Random } from '#src/sandbox/random.ts'

/** The mode of published files; they never change, so a copy of the directory may share them. */
const READ_ONLY = 0o444

/** An operation on a name that is not durable yet, and how to undo it. */
type Unsettled = { readonly directory: string; undo(root: string): void }

/**
 * What the disk below a company's directory holds for certain, by the operations of `src/lib/durable.ts`.
 * Everything else may be complete, partial or missing after a power failure.
 */
export class SimulatedDisk {
  readonly #root: string
  readonly #aside: string
  readonly #synced = new Set<string>()
  readonly #named = new Set<string>()
  #unsettled: Unsettled[] = []
  #saved = 0

  /** @param aside a directory on the same file system, for files that may have to be restored. */
  constructor(root: string, aside: string) {
    this.#root = root
    this.#aside = aside
    mkdirSync(aside, { recursive: true })
  }

  before(operation: Operation): void {
    if (operation.kind === 'rename') this.#beforeRename(operation.from, operation.path)
    if (operation.kind === 'remove' && basename(operation.path) === 'manifest.json')
      this.#beforeRemove(operation.path)
  }

  after(operation: Operation): void {
    if (operation.kind === 'sync') this.#synced.add(operation.path)
    if (operation.kind === 'link') this.#synced.add(operation.path)
    // If a file had that name before, the name itself survives: it is the old file or the new one.
    if (operation.kind === 'rename') this.#moved(operation.from, operation.path)
    if (operation.kind === 'remove') this.#removed(operation.path)
    if (operation.kind === 'sync_directory' && existsSync(operation.path)) {
      for (const name of readdirSync(operation.path)) this.#named.add(join(operation.path, name))
      this.#unsettled = this.#unsettled.filter(({ directory }) => directory !== operation.path)
    }
  }

  /** The warehouse is as durable as DuckDB makes it: complete, as of a checkpoint. */
  checkpointed(path: string): void {
    if (!existsSync(path)) return
    this.#synced.add(path)
    copyFileSync(path, this.#checkpoint)
  }

  /** Copies the directory as it is now: what a process killed now leaves. */
  copyTo(path: string): void {
    copyTree(this.#root, path)
  }

  /** Removes from a copy what a power failure may lose. */
  losePower(copy: string, random: Random): void {
    for (const { undo } of this.#unsettled.toReversed()) if (random.chance(0.5)) undo(copy)
    this.#unsettled = []
    const warehouse = join(copy, 'warehouse.duckdb')
    if (existsSync(this.#checkpoint) && existsSync(warehouse) && random.chance(0.5))
      copyFileSync(this.#checkpoint, warehouse)
    this.#loseBelow(copy, '', random)
    this.#synced.clear()
    this.#named.clear()
    this.#settle(copy)
  }

  #moved(from: string, path: string): void {
    if (this.#synced.delete(from)) this.#synced.add(path)
    else this.#synced.delete(path)
  }

  #removed(path: string): void {
    for (const known of [this.#synced, this.#named])
      for (const name of known) if (name === path || name.startsWith(`${path}/`)) known.delete(name)
  }

  /** @param below path of a directory, relative to the root. */
  #loseBelow(copy: string, below: string, random: Random): void {
    for (const entry of readdirSync(join(copy, below), { withFileTypes: true }).sort(byName)) {
      const name = join(below, entry.name)
      const [path, original] = [join(copy, name), join(this.#root, name)]
      if (entry.name === 'tmp' || entry.name.startsWith('warehouse') || entry.name.startsWith('lock'))
        continue
      if (!this.#named.has(original) && random.chance(0.4)) {
        rmSync(path, { recursive: true, force: true })
      } else if (entry.isDirectory()) {
        this.#loseBelow(copy, name, random)
      } else if (entry.isFile() && !this.#synced.has(original) && random.chance(0.5)) {
        loseBytes(path, random)
      }
    }
  }

  /** Everything that survived a power failure is durable. */
  #settle(copy: string): void {
    for (const name of readdirSync(copy, { recursive: true }) as string[]) {
      this.#synced.add(join(this.#root, name))
      this.#named.add(join(this.#root, name))
    }
  }

  #beforeRename(from: string, path: string): void {
    const [source, target] = [relative(this.#root, from), relative(this.#root, path)]
    const link = readLink(path)
    const kept = link === null && existsSync(path) ? this.#keep(path) : null
    this.#unsettled.push({
      directory: dirname(path),
      undo(root) {
        const [there, here] = [join(root, source), join(root, target)]
        if (!exists(here) || !existsSync(dirname(there))) return
        renameSync(here, there)
        if (link !== null) symlinkSync(link, here)
        else if (kept) linkSync(kept, here)
      },
    })
  }

  #beforeRemove(path: string): void {
    if (!existsSync(path)) return
    const kept = this.#keep(path)
    const target = relative(this.#root, path)
    const wasSynced = this.#synced.has(path)
    this.#unsettled.push({
      directory: dirname(path),
      undo: root => {
        const here = join(root, target)
        if (existsSync(here)) return
        mkdirSync(dirname(here), { recursive: true })
        linkSync(kept, here)
        // A file that was durable before its removal comes back complete.
        if (wasSynced) this.#synced.add(path)
      },
    })
  }

  #keep(path: string): string {
    this.#saved += 1
    const kept = join(this.#aside, String(this.#saved))
    // The warehouse is written in place; all other files are only replaced.
    if (basename(path).startsWith('warehouse')) copyFileSync(path, kept)
    else linkSync(path, kept)
    return kept
  }

  get #checkpoint(): string {
    return join(this.#aside, 'checkpoint.duckdb')
  }
}

/** Copies a directory; read-only files are shared, because nothing changes them. */
function copyTree(from: string, to: string): void {
  mkdirSync(to)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) copyTree(source, target)
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target)
    else if ((lstatSync(source).mode & 0o777) === READ_ONLY) linkSync(source, target)
    else cpSync(source, target, { preserveTimestamps: true })
  }
}

/** Truncates a file to a random size; its other hard links keep the content. */
function loseBytes(path: string, random: Random): void {
  const { size, mode } = lstatSync(path)
  const bytes = random.chance(0.5) ? 0 : random.int(0, size)
  const own = `${path}.own`
  copyFileSync(path, own)
  chmodSync(own, 0o644)
  truncateSync(own, bytes)
  chmodSync(own, mode & 0o777)
  renameSync(own, path)
}

function readLink(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    return null
  }
}

function exists(path: string): boolean {
  return existsSync(path) || readLink(path) !== null
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : 1
}
