import { globSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

/** A TypeScript file: its path from the root, and its text. */
export type SourceFile = { readonly path: string; readonly text: string }

/** Reads the TypeScript files that match these patterns, in the order of their paths. */
export function readSources(patterns: readonly string[]): SourceFile[] {
  return globSync([...patterns], { cwd: ROOT })
    .sort()
    .map(path => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))
}

/** The imports of a file, and what it names by its own place (`new URL('x', import.meta.url)`). */
const IMPORTS = [
  /\b(?:from|import)\s*\(?\s*['"]((?:#|\.\.?\/)[^'"]+)['"]/g,
  /\bimport\.meta\.resolve\(\s*['"]((?:#|\.\.?\/)[^'"]+)['"]/g,
  /\bnew URL\(\s*['"]([^'"]+)['"],\s*import\.meta\.url/g,
  /\bjoin\(\s*import\.meta\.dirname,\s*['"]([^'"]+)['"]/g,
]

/** Returns the paths, from the root, of what a file imports. */
export function importsOf({ path, text }: SourceFile): string[] {
  return IMPORTS.flatMap(form => [...text.matchAll(form)]).map(([, name = '']) => resolve(path, name))
}

const STATIC = /^(?:import|export)\s+(?!type\b)(?:([^'"]*?)\s+from\s+)?['"]([^'"]+)['"]/gm

/** Returns what is loaded with a file, from the files of the project: their paths, and the names of libraries. */
export function loadedWith(start: string, files: ReadonlyMap<string, SourceFile>): Set<string> {
  const loaded = new Set([start])
  for (const path of loaded)
    for (const [, names = '', name = ''] of (files.get(path)?.text ?? '').matchAll(STATIC)) {
      const inner = /^\{([^}]*)\}$/s.exec(names)?.[1]?.split(',') ?? [names]
      const isTypes = inner.filter(one => one.trim() !== '').every(one => /^\s*type\s/.test(one))
      if (names !== '' && isTypes) continue
      loaded.add(/^[#.]/.test(name) ? resolve(path, name) : name)
    }
  return loaded
}

function resolve(path: string, name: string): string {
  return name.startsWith('#') ? name.slice(1) : posix.join(posix.dirname(path), name)
}

const NAMED =
  /\b(?:import|export)\s+(?:type\s+)?(?:\w+\s*,\s*)?\{([^}]*)\}\s*from\s*['"]((?:#|\.\.?\/)[^'"]+)['"]/g
const LOADED = /\{([^{}]*)\}\s*=\s*await import\(\s*['"]((?:#|\.\.?\/)[^'"]+)['"]/g
const WHOLE =
  /\*\s*as\s+\w+\s+from\s*['"]((?:#|\.\.?\/)[^'"]+)['"]|\bimport\(\s*['"]((?:#|\.\.?\/)[^'"]+)['"]/g

/** The name of an export that stands for all of its file's. */
export const ALL = '*'

/** Returns the exports that a file uses of others, as `path name`; `path *` if it uses a file as a whole. */
export function importedNames({ path, text }: SourceFile): string[] {
  const named = [...text.matchAll(NAMED), ...text.matchAll(LOADED)].flatMap(([, names = '', from = '']) =>
    names
      .split(',')
      .map(name => name.trim().replace(/^type\s+/, ''))
      .filter(name => name !== '')
      .map(name => `${resolve(path, from)} ${name.split(/\s+as\s+|\s*:\s*/)[0]}`),
  )
  const loaded = new Set([...text.matchAll(LOADED)].map(([, , from = '']) => resolve(path, from)))
  const whole = [...text.matchAll(WHOLE)]
    .map(([, from, other]) => resolve(path, (from ?? other) as string))
    .filter(from => !loaded.has(from))
  return [...named, ...whole.map(from => `${from} ${ALL}`)]
}

const EXPORT =
  /^export\s+(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:function\*?|class|const|let|type|interface|enum)\s+(\w+)/gm

/** Returns the names that a file exports of its own. */
export function exportedNames({ text }: SourceFile): string[] {
  return [...new Set([...text.matchAll(EXPORT)].map(([, name]) => name as string))]
}
