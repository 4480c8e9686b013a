import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { BoundedFiles } from '#src/core/warehouse/bounded_files.ts'
import { carryDocument, carryText, MAX_ROW_BYTES } from '#src/core/warehouse/cut.ts'
import { noticeEntry } from '#test/support/notices.ts'
import { cutFields } from '#test/support/oracle/long_texts.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const MARK = /… \[texto cortado: (\d+) bytes, sha256 ([0-9a-f]{16})\]$/
const bytesOf = (text: unknown) => Buffer.byteLength(typeof text === 'string' ? text : JSON.stringify(text))

function carriedNotice(fields: object): Record<string, string> {
  return carryDocument('notice', { ...noticeEntry(1).edital, ...fields }).document as Record<string, string>
}

function carriedAnalysis(fields: object): Record<string, unknown> {
  return carryDocument('analysis', { ...noticeEntry(1).analysis, ...fields }).document as Record<
    string,
    unknown
  >
}

describe('a text of a row', () => {
  it('stays as it is up to the bound', () => {
    const objeto = 'a'.repeat(MAX_ROW_BYTES - 1000)
    const { document, cuts } = carryDocument('notice', { ...noticeEntry(1).edital, objeto })
    expect(cuts).toEqual([])
    expect(document).toEqual({ ...noticeEntry(1).edital, objeto })
  })

  it('beyond it keeps its beginning, its length and a hash, so that two remain two', () => {
    const [one, other] = ['x', 'y'].map(end => `${'ação '.repeat(20_000)}${end}`)
    const [{ objeto = '' }, { objeto: second }] = [
      carriedNotice({ objeto: one }),
      carriedNotice({ objeto: other }),
    ]
    const [, bytes, hash] = MARK.exec(objeto) ?? []
    expect(bytes).toBe(String(bytesOf(one)))
    expect(hash).toBe(
      createHash('sha256')
        .update(one as string)
        .digest('hex')
        .slice(0, 16),
    )
    expect(one?.startsWith(objeto.replace(MARK, ''))).toBe(true)
    expect(second).not.toBe(objeto)
  })

  it('is cut only as far as the longest of its row must be', () => {
    const carried = carriedNotice({ objeto: 'o'.repeat(1_000_000), orgao: 'b'.repeat(20_000), uf: 'SP' })
    const { orgao = '', objeto = '' } = carried
    expect([carried.uf, MARK.test(orgao), MARK.test(objeto)]).toEqual(['SP', true, true])
    expect(Math.abs(bytesOf(orgao) - bytesOf(objeto))).toBeLessThan(4)
  })

  it('of a list is cut by its own row, and no other', () => {
    const requirements = [
      { title: 'a', required: 'r'.repeat(100_000) },
      { title: 'b', required: 'short' },
    ]
    const carried = carriedAnalysis({ requirements, verdict: { reason: 'because' } })
    expect(carried).toMatchObject({
      verdict: { reason: 'because' },
      requirements: [{ title: 'a' }, requirements[1]],
    })
    expect(carryDocument('analysis', { ...noticeEntry(1).analysis, requirements }).cuts).toEqual([
      { path: 'analysis.requirements[].required', bytes: 100_000 },
    ])
  })
})

describe('a free-form part', () => {
  it('keeps its structure, and cuts the texts in it', () => {
    const overview = { is_srp: true, prazo_impugnacao: '3 dias', outro: { lista: ['l'.repeat(500_000)] } }
    const carried = carriedAnalysis({ overview }) as { overview: typeof overview }
    expect(carried.overview).toMatchObject({ is_srp: true, prazo_impugnacao: '3 dias' })
    expect(carried.overview.outro.lista[0]).toMatch(MARK)
    expect(bytesOf(carried.overview)).toBeLessThan(2 * MAX_ROW_BYTES)
  })

  it('of too many small values becomes one text', () => {
    const carried = carriedAnalysis({ operational: { lista: Array.from({ length: 100_000 }, (_, n) => n) } })
    expect(carried.operational).toMatch(MARK)
    expect(bytesOf(carried.operational)).toBeLessThanOrEqual(MAX_ROW_BYTES)
  })
})

it('every row fits, whatever its texts are, and the same document always gives the same', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc
      .tuple(fc.string({ unit: 'binary', minLength: 1, maxLength: 5 }), fc.integer({ min: 0, max: 40_000 }))
      .map(([one, times]) => one.repeat(times)),
  )
  const fields = fc.record({ orgao: text, objeto: text, modalidade: text, discard_reason: text })
  fc.assert(
    fc.property(fields, some => {
      const document = JSON.parse(JSON.stringify({ ...noticeEntry(1).edital, ...some }).toWellFormed())
      const carried = carriedNotice(document)
      const { cuts } = carryDocument('notice', document)
      expect(cuts.map(({ path }) => path).sort()).toEqual(cutFields(document, 'notice').sort())
      const { updated_at, created_at, ...texts } = carried
      const bytes = Object.values(texts).map(value => (typeof value === 'string' ? bytesOf(value) : 0))
      expect(bytes.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(MAX_ROW_BYTES)
      expect(JSON.parse(carryText('notice', JSON.stringify(document)))).toEqual(
        JSON.parse(JSON.stringify(carried)),
      )
      expect(carriedNotice(carried)).toEqual(carried)
      for (const value of Object.values(texts))
        if (typeof value === 'string') expect(value.isWellFormed()).toBe(true)
    }),
    { numRuns: 10, seed: 37 },
  )
})

/** More than a file's bound. */
const LARGE = 'b'.repeat(8 * 1024 * 1024)

test('a file that failed is reported, although the next one is written', async () => {
  const directory = join(await temporaryDirectory(), 'later')
  const files = new BoundedFiles(directory, 'lines')
  await files.add(['a'])
  await expect(files.flush()).rejects.toThrow('ENOENT')
  await mkdir(directory)
  await files.add([LARGE])
  await expect(files.flush()).rejects.toThrow('ENOENT')
  await files.close()
})
