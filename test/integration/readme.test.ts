import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const documents = await pair('README.md', 'README.pt-BR.md')
const pages = [
  await pair('docs/operating/commands.md', 'docs/pt-BR/comandos.md'),
  await pair('docs/operating/data.md', 'docs/pt-BR/dados.md'),
  await pair('docs/tools/excel.md', 'docs/pt-BR/excel.md'),
  await pair('docs/tools/power-bi.md', 'docs/pt-BR/power-bi.md'),
]
/** Pages whose English twin says more. */
const shorter = [
  await pair('docs/operating/daemon.md', 'docs/pt-BR/daemon.md'),
  await pair('docs/operating/docker.md', 'docs/pt-BR/docker.md'),
  await pair('docs/operating/metabase.md', 'docs/pt-BR/metabase.md'),
  await pair('docs/operating/api.md', 'docs/pt-BR/api.md'),
]

async function pair(...names: readonly [string, string]): Promise<readonly string[]> {
  return await Promise.all(names.map(name => readFile(join(ROOT, name), 'utf8')))
}

/** What both languages share; empty sets would make the tests pass for nothing. */
function expectSame(read: (document: string) => readonly string[], least: number, of = documents): void {
  const [own, twin] = of.map(read)
  expect(own?.length).toBeGreaterThanOrEqual(least)
  expect(twin).toEqual(own)
}

/** Each line of an indented block; comments are in the language of their document. */
function commands(document: string): string[] {
  return document
    .split('\n')
    .filter(line => line.startsWith('    '))
    .map(line => line.replace(/\s+# (?!\.env).*$/, '').trim())
}

/** Text in backticks: commands, settings, paths, tables. Word order is the language's, so they are sorted. */
function inlineCode(document: string): string[] {
  return [...new Set([...document.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code))].sort()
}

function settings(document: string): string[] {
  return [...new Set(document.match(/\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b/g))].sort()
}

/** The level of each heading, in order. */
function sections(document: string): string[] {
  return [...document.matchAll(/^(#+) /gm)].map(([, level = '']) => level)
}

function pictures(document: string): string[] {
  return [...document.matchAll(/(?:src|srcset)="([^"]+)"/g)].map(([, picture = '']) => picture)
}

it('the READMEs in English and Portuguese have the same commands', () => expectSame(commands, 9))
it('they name the same commands, paths and tables in their text', () => expectSame(inlineCode, 20))
it('they have the same sections', () => expectSame(sections, 9))
it('they show the same pictures', () => expectSame(pictures, 2))
it('they can be read in two minutes', () => {
  for (const document of documents) expect(document.split('\n').length).toBeLessThanOrEqual(130)
})
it('the pages of commands and of data name the same commands, settings and paths', () => {
  for (const page of pages) {
    expectSame(commands, 1, page)
    expectSame(inlineCode, 6, page)
    expectSame(settings, 1, page)
  }
})
it('a shorter page in Portuguese has no command or setting that its twin lacks', () => {
  for (const [own = '', twin = ''] of shorter) {
    expect(commands(twin).length).toBeGreaterThan(1)
    const known = commands(own)
    expect(commands(twin).filter(command => !known.includes(command))).toEqual([])
  }
})
it('each links to the other at the top', () => {
  const tops = documents.map(document => document.split('\n').slice(0, 3).join('\n'))
  expect(tops[0]).toContain('](README.pt-BR.md)')
  expect(tops[1]).toContain('](README.md)')
})
