import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { smallestRights } from '#test/support/redis_rights.ts'

type Script = { readonly name: string; readonly content: string }

/** What BullMQ and we send outside scripts. */
const OUTSIDE = ['eval', 'evalsha', 'multi', 'exec', 'select', 'bzpopmin', 'hsetnx', 'info']
const COMMAND = /(?:rcall|redis\.p?call)\(\s*['"]([A-Za-z]+)/g

const scripts = Object.values(createRequire(import.meta.url)('bullmq/dist/cjs/scripts')) as Script[]
const granted = smallestRights('p').flatMap(right => /^\+(\w+)$/.exec(right)?.[1] ?? [])
const probe = readFileSync(join(import.meta.dirname, '../../../jobs/queues/redis_probe.ts'), 'utf8')

/** Relays, a part of BullMQ that the worker does not use, need more. */
function usedByScripts(): Set<string> {
  const used = scripts.filter(({ name }) => !name.startsWith('relay'))
  return new Set(
    used.flatMap(({ content }) => [...content.matchAll(COMMAND)].map(([, one = '']) => one.toLowerCase())),
  )
}

it('the documented rights are what BullMQ and the worker use, and no more', () => {
  const used = [...usedByScripts(), ...OUTSIDE]
  expect(used.length).toBeGreaterThan(50)
  expect(granted.toSorted()).toEqual([...new Set(used)].sort())
  expect(smallestRights('p').filter(right => right.startsWith('~'))).toEqual(['~p:*'])
  expect(smallestRights('{p}')).toEqual(expect.arrayContaining(['~{p}:*', '+cluster|slots', '+readonly']))
})

it('each of them is probed, so that a missing one shows before a job fails on it', () => {
  const probed = new Set([...probe.matchAll(/\{'([A-Z]+)'/g)].map(([, name = '']) => name.toLowerCase()))
  const elsewhere = [...OUTSIDE, 'del']
  expect(granted.filter(name => !probed.has(name) && !elsewhere.includes(name))).toEqual([])
})
