import { lstatSync, mkdirSync } from 'node:fs'
import { enableCompileCache, getCompileCacheDir } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'

// JavaScript, like src/cli/main.js, so that it needs no TypeScript parser.

/**
 * Has Node keep compiled modules in this user's cache directory, unless NODE_COMPILE_CACHE names another one. Node's own
 * choice, below /tmp, is a place where another user of the machine could plant code. Without a directory that is this
 * user's alone, commands start without a cache.
 */
export function keepCompiled() {
  if (getCompileCacheDir() !== undefined) return
  try {
    const directory = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'editais-sync')
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const { uid, mode } = lstatSync(directory)
    const isOurs = uid === (process.geteuid?.() ?? uid) && (mode & 0o022) === 0
    if (isOurs) enableCompileCache(directory)
  } catch {}
}
