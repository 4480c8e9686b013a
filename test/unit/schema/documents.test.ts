import { describe, expect, it } from 'vitest'
import type { Portuguese } from '#schema/columns.ts'
import { validateAnalysis, validateNotice, validatePage } from '#src/core/pipeline/validate.ts'
import { CATALOG } from '#src/marts/marts.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { EXAMPLES } from '#src/server/contract/examples.ts'
import { fieldsBelow, LISTS, PARTS } from '#test/support/contract_tables.ts'
import { healthyAnalysis, healthyNotice } from '#test/support/healthy.ts'
import { START } from '#test/support/sandbox.ts'

type Document = Readonly<Record<string, unknown>>

/** Enough for every phase and level, and for what is rarely sent. */
const NOTICES = 300

const bytesOf = (document: unknown) => Buffer.from(JSON.stringify(document))

/** The fields of the documents, as `Heading.field` of docs/contract.md. */
function fieldsOf(notices: readonly Document[], analyses: readonly Document[]): Set<string> {
  const named = (heading: string, documents: readonly Document[]) =>
    documents.flatMap(document => Object.keys(document).map(name => `${heading}.${name}`))
  const below = (parts: Readonly<Record<string, string>>) =>
    Object.entries(parts).flatMap(([name, heading]) =>
      named(
        heading,
        analyses.flatMap(analysis => (analysis[name] ?? []) as Document[]),
      ),
    )
  return new Set([
    ...named('Notice', notices),
    ...named('Analysis', analyses),
    ...below({ ...PARTS, ...LISTS }),
  ])
}

const CONTRACT = ['Notice', 'Analysis', ...Object.values(PARTS), ...Object.values(LISTS)].flatMap(heading =>
  fieldsBelow(heading).map(({ name }) => `${heading}.${name}`),
)

it('the healthy documents of the tests have every field of the contract, and no other', () => {
  const [notice, analysis] = [healthyNotice('a1'), healthyAnalysis('a1')]
  expect([...fieldsOf([notice], [analysis])].sort()).toEqual(CONTRACT.toSorted())
  expect(validateNotice(bytesOf(notice), 'a1')).toMatchObject({ ok: true, drift: [] })
  expect(validateAnalysis(bytesOf(analysis), 'a1')).toMatchObject({ ok: true, drift: [] })
})

it('the sandbox sends every field of the contract', () => {
  const world = generateWorld({ seed: 1, company: 'acme', notices: NOTICES, start: START })
  const entries = world.ids().flatMap(id => world.entry(id) ?? [])
  const sent = fieldsOf(
    entries.map(({ edital }) => edital),
    entries.map(({ analysis }) => analysis ?? {}),
  )
  expect(
    CONTRACT.filter(field => !sent.has(field)),
    'src/sandbox/generate.ts, generate_tender.ts or generate_analysis.ts must send these',
  ).toEqual([])
})

it('the examples in the description of the API have no field that the contract does not name', () => {
  const { Edital, EditalAnalysis, EditalPage } = EXAMPLES
  const { id } = Edital.value
  expect(validateNotice(bytesOf(Edital.value), id)).toMatchObject({ ok: true, drift: [] })
  expect(validateAnalysis(bytesOf(EditalAnalysis.value), id)).toMatchObject({ ok: true, drift: [] })
  expect(validatePage(bytesOf(EditalPage.value))).toMatchObject({ notices: [{ ok: true }], drift: [] })
})

describe('the Portuguese vocabulary', () => {
  it('has a label and one line for every table, mart and column', () => {
    const entries = CATALOG.flatMap(({ portuguese, columns }) => [
      portuguese,
      ...columns.map(column => column.portuguese),
    ])
    const unfit = ([label, description]: Portuguese) =>
      !/^\S.{0,38}\S$/.test(label) || !/^\S.+[^\s.]$/.test(description)
    expect(entries.filter(unfit)).toEqual([])
  })

  it('gives no two columns of a table the same label', () => {
    const alike = CATALOG.flatMap(({ name, columns }) => {
      const labels = columns.map(({ portuguese: [label] }) => label)
      return labels.filter((label, at) => labels.indexOf(label) !== at).map(label => `${name}: ${label}`)
    })
    expect(alike).toEqual([])
  })
})
