import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const [english, portuguese] = await Promise.all(
  ['README.md', 'README.pt-BR.md'].map(name => readFile(join(ROOT, name), 'utf8')),
)
const documents = [english, portuguese] as [string, string]

/** What both languages share; empty sets would make the tests pass for nothing. */
function expectSame(read: (document: string) => readonly string[], least: number): void {
  const [own, twin] = documents.map(read)
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

function targets(document: string): string[] {
  const links = [...document.matchAll(/\]\(([^)]+)\)|(?:src|srcset)="([^"]+)"/g)]
  return links.map(([, link, picture]) => link ?? picture ?? '').filter(link => !/^README/.test(link))
}

it('the READMEs in English and Portuguese have the same commands', () => expectSame(commands, 35))
it('they name the same commands, paths and tables in their text', () => expectSame(inlineCode, 80))
it('they name the same settings', () => expectSame(settings, 15))
it('they have the same sections', () => expectSame(sections, 14))
it('they show the same pictures and link to the same pages', () => expectSame(targets, 15))
it('each links to the other at the top', () => {
  const tops = documents.map(document => document.split('\n').slice(0, 3).join('\n'))
  expect(tops[0]).toContain('](README.pt-BR.md)')
  expect(tops[1]).toContain('](README.md)')
})
