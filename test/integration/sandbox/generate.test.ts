import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { ANALYSIS_LEVELS } from '#schema/analysis.ts'
import { STATUSES } from '#schema/notice.ts'
import { analysis, notice } from '#schema/zod.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { findLevelViolations, generateAnalysis } from '#src/sandbox/generate_analysis.ts'
import { chooseSegment, makeCnpj } from '#src/sandbox/generate_tender.ts'
import { SEGMENTS } from '#src/sandbox/vocabulary/segments.ts'
import { type Entry, readNoticesFile, type World } from '#src/sandbox/world.ts'
import { START } from '#test/support/sandbox.ts'

const REAL_FILE = fileURLToPath(new URL('../../../../shared/pncp/world.ndjson.gz', import.meta.url))

function worldOf(seed: string | number, company = 'aurora', notices = 300, start = START): World {
  return generateWorld({ seed, company, notices, start })
}

function entriesOf(world: World): Entry[] {
  return world.ids().flatMap(id => world.entry(id) ?? [])
}

/** Violations of schemas and level rules, by id; empty if there are none. */
function faultsOf(entries: readonly Entry[]): string[] {
  return entries.flatMap(({ edital, analysis: document }) =>
    [
      notice.safeParse(edital).error?.message,
      analysis.safeParse(document).error?.message,
      ...findLevelViolations(document ?? {}),
    ].flatMap(message => (message === undefined ? [] : [`${edital.id}: ${message}`])),
  )
}

describe('a generated world', () => {
  const entries = entriesOf(worldOf(1))

  test('satisfies the contract, document by document', () => {
    expect(entries).toHaveLength(300)
    expect(faultsOf(entries)).toEqual([])
  })

  test('is the same for the same seed, and differs for another seed or company', () => {
    const text = (world: World) => JSON.stringify(entriesOf(world))
    expect(text(worldOf(1))).toBe(JSON.stringify(entries))
    expect(text(worldOf(2))).not.toBe(JSON.stringify(entries))
    expect(text(worldOf(1, 'boreal'))).not.toBe(JSON.stringify(entries))
  })

  test('has every phase and every level', () => {
    expect(new Set(entries.map(({ edital }) => edital.status))).toEqual(new Set(STATUSES))
    expect(new Set(entries.map(({ analysis }) => analysis?.analysis_level))).toEqual(new Set(ANALYSIS_LEVELS))
  })

  test('shares tenders between companies, but never an id', () => {
    const others = entriesOf(worldOf(1, 'boreal'))
    const tenders = new Set(entries.map(({ edital }) => edital.pncp_id))
    const ids = new Set(entries.map(({ edital }) => edital.id))
    const common = others.filter(({ edital }) => tenders.has(edital.pncp_id))
    expect(common.length).toBeGreaterThan(60)
    expect(common.length).toBeLessThan(300)
    expect(others.filter(({ edital }) => ids.has(edital.id))).toEqual([])
    expect(tenders.size).toBe(300)
    expect(ids.size).toBe(300)
  })

  test('identifies buyers by CNPJs with valid check digits', () => {
    expect(makeCnpj('33000167')).toBe('33000167000101')
    // The example that its rules give.
    expect(makeCnpj('12ABC345', '01DE')).toBe('12ABC34501DE35')
    const withLetters = entries.filter(({ edital }) => /[A-Z]/.test(edital.pncp_id))
    expect(withLetters.length).toBeGreaterThan(5)
    expect(withLetters.length).toBeLessThan(entries.length / 4)
    for (const { edital } of entries) {
      const [cnpj = ''] = edital.pncp_id.split('-')
      expect(edital.pncp_id).toMatch(/^[0-9A-Z]{12}\d{2}-\d{4}-\d+$/)
      expect(cnpj).toBe(makeCnpj(cnpj.slice(0, 8)))
    }
  })

  test('contains nothing newer than its start, and nothing updated before its creation', () => {
    for (const { edital } of entries) {
      expect(Date.parse(edital.created_at)).toBeLessThanOrEqual(Date.parse(edital.updated_at))
      expect(Date.parse(edital.updated_at)).toBeLessThanOrEqual(START.getTime())
    }
  })

  test('gives the reason of each discarded notice, and the time of each confirmation, and no others', () => {
    for (const { edital } of entries) {
      expect('discard_reason' in edital).toBe(edital.status === 'discarded')
      expect('committed_at' in edital).toBe(edital.participation_confirmed)
      if (edital.status === 'ready') expect(edital.participation_confirmed).toBe(true)
    }
  })

  test('has the oddities of real notices, in similar shares', () => {
    const many = entriesOf(worldOf(3, 'aurora', 2000)).map(({ edital }) => edital)
    const share = (holds: (edital: Entry['edital']) => boolean) => many.filter(holds).length / many.length
    const object = (pattern: RegExp) => share(edital => pattern.test(String(edital.objeto)))
    expect(share(edital => edital.valor_estimado === 0)).toBeGreaterThan(0.09)
    expect(share(edital => edital.valor_estimado === 0)).toBeLessThan(0.15)
    expect(share(edital => edital.valor_estimado === 9999999999999.99)).toBeGreaterThan(0)
    expect(share(edital => edital.data_sessao === undefined)).toBeGreaterThan(0.01)
    expect(share(edital => /T\d\d:\d\d:\d\d$/.test(String(edital.data_sessao)))).toBeGreaterThan(0.5)
    for (const oddity of [/\u00a0/, /\r\n/, /^ /, /\s$/, /\u200b/, /^\[/, /^- /]) {
      expect(object(oddity)).toBeGreaterThan(0)
    }
    expect(new Set(many.map(edital => edital.modalidade)).size).toBeGreaterThanOrEqual(12)
  })

  test('has notices with few items and notices with hundreds', () => {
    const counts = entriesOf(worldOf(3, 'aurora', 2000))
      .map(({ analysis }) => ((analysis?.items ?? []) as unknown[]).length)
      .filter(count => count > 0)
      .sort((a, b) => a - b)
    const median = counts[Math.floor(counts.length / 2)]
    expect(median).toBeGreaterThanOrEqual(8)
    expect(median).toBeLessThanOrEqual(25)
    expect(counts.at(-1)).toBeGreaterThan(200)
  })
})

describe('an analysis', () => {
  const [entry] = entriesOf(worldOf(1))
  const edital = entry?.edital as Entry['edital']
  const at = (level: (typeof ANALYSIS_LEVELS)[number]) => generateAnalysis(edital, level)

  test('grows with its level and repeats its earlier content', () => {
    for (const level of ANALYSIS_LEVELS) expect(findLevelViolations(at(level))).toEqual([])
    expect(at('none')).toMatchObject({ analyzed: false, verdict: {}, requirements: [], items: [] })
    expect(at('simple').overview).toEqual(at('deep').overview)
    expect(at('medium').pricing).toEqual(at('deep').pricing)
    expect(at('deep').items).toMatchObject(at('medium').items as object[])
    expect(at('deep').requirements).toMatchObject(at('medium').requirements as object[])
  })

  test('that breaks a level rule is detected', () => {
    expect(findLevelViolations({ ...at('none'), analyzed: true })).toEqual(['analyzed is true'])
    expect(findLevelViolations({ ...at('none'), overview: {} })).toEqual(['overview before simple'])
    expect(findLevelViolations({ ...at('none'), verdict: { reason: '' } })).toEqual(['verdict before simple'])
    expect(findLevelViolations({ ...at('simple'), pricing: {} })).toEqual(['pricing before medium'])
    expect(findLevelViolations({ ...at('simple'), items: [{}] })).toEqual(['items before medium'])
    expect(findLevelViolations({ ...at('simple'), analysis_level: 'total' })).toEqual(['unknown level total'])
  })

  test('uses the segment that matches the words of the object', () => {
    for (const segment of SEGMENTS) {
      for (const object of segment.objects) {
        expect(chooseSegment(object).name).toBe(segment.name)
        expect(chooseSegment(object.toUpperCase().replace(', ', ',\r\n')).name).toBe(segment.name)
      }
    }
  })
})

test.skipIf(!existsSync(REAL_FILE))(
  'real notices satisfy the contract (skipped without ../shared/pncp/world.ndjson.gz)',
  async () => {
    const entries = await readNoticesFile(REAL_FILE)
    expect(entries.length).toBeGreaterThan(1000)
    expect(faultsOf(entries)).toEqual([])
  },
)
