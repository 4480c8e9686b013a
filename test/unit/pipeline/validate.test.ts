import { describe, expect, it } from 'vitest'
import {
  type Accepted,
  type Page,
  validateAnalysis,
  validateNotice,
  validatePage,
} from '#src/core/pipeline/validate.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'

const { edital, analysis } = noticeEntry(1)

function bytesOf(document: unknown): Buffer {
  return Buffer.from(JSON.stringify(document))
}

function notice(fields: object) {
  return validateNotice(bytesOf({ ...edital, ...fields }), idOf(1))
}

/** Validates an analysis with these fields; throws if it is rejected. */
function accepted(fields: object): Accepted {
  const verdict = validateAnalysis(bytesOf({ ...analysis, ...fields }), idOf(1))
  if (!verdict.ok) throw new Error(verdict.reason)
  return verdict
}

describe('a document that follows the contract', () => {
  it('is kept as it is, and its bytes are the document', () => {
    const document = JSON.stringify(edital)
    expect(notice({})).toEqual({
      ok: true,
      editalId: idOf(1),
      document,
      bytes: Buffer.from(document),
      updatedAt: edital.updated_at,
      compared: document.replaceAll('.000Z', 'Z'),
      drift: [],
    })
  })

  it.each([
    { what: 'a byte order mark', body: `\ufeff${JSON.stringify(edital)}` },
    { what: 'spaces', body: JSON.stringify(edital, null, 1) },
    {
      what: 'a time in another form',
      body: JSON.stringify({ ...edital, data_sessao: '2026-11-01t00:01:00-0300' }),
    },
  ])('is not its bytes if they have $what', ({ body }) => {
    const verdict = validateNotice(Buffer.from(body), idOf(1))
    expect(verdict).toMatchObject({ ok: true, drift: [] })
    expect(verdict).not.toHaveProperty('bytes')
    expect(verdict).not.toHaveProperty('raw')
  })

  it('has its times in the form that SQL reads, and its updated_at as it was written', () => {
    const verdict = notice({ updated_at: '2026-11-01t00:01:00,5-0300' })
    expect(verdict).toMatchObject({ ok: true, updatedAt: '2026-11-01t00:01:00,5-0300' })
    expect(JSON.parse((verdict as Accepted).document)).toMatchObject({
      updated_at: '2026-11-01T00:01:00.5-03:00',
    })
  })

  it('keeps its bytes where they say more than the document: duplicate keys, digits, lone surrogates', () => {
    const text = JSON.stringify(edital)
    for (const bytes of [
      text.replace('{', '{"uf":"SP",').replace(/}$/, ',"uf":"RJ"}'),
      text.replace('"valor_estimado":1.25', '"valor_estimado":1.2500000000000000001'),
      text.replace('"Objeto 1"', '"Objeto \\ud800"'),
    ]) {
      expect(bytes).not.toBe(text)
      expect(validateNotice(Buffer.from(bytes), idOf(1)), bytes).toMatchObject({
        ok: true,
        raw: Buffer.from(bytes),
      })
    }
  })
})

describe('a document that deviates from the contract', () => {
  it('keeps what the contract does not name, and it is reported', () => {
    const verdict = notice({ cor: 'azul', status: 'negotiation' })
    expect(verdict).toMatchObject({
      ok: true,
      drift: expect.arrayContaining([
        { path: 'notice.cor', kind: 'unknown_field', sample: 'azul', count: 1 },
        { path: 'notice.status', kind: 'unknown_enum', sample: 'negotiation', count: 1 },
      ]),
    })
    expect(JSON.parse((verdict as Accepted).document)).toMatchObject({ cor: 'azul', status: 'negotiation' })
  })

  it('has NULL for an optional field of a wrong type, and its bytes beside', () => {
    const verdict = notice({ valor_estimado: 'much' })
    expect(verdict).toMatchObject({
      ok: true,
      raw: bytesOf({ ...edital, valor_estimado: 'much' }),
      drift: [{ path: 'notice.valor_estimado', kind: 'wrong_type', sample: 'much', count: 1 }],
    })
    expect(JSON.parse((verdict as Accepted).document)).toMatchObject({ valor_estimado: null })
  })

  it('keeps whatever stands in a free-form part', () => {
    const verdict = accepted({ overview: ['anything'] })
    expect(verdict.drift).toMatchObject([{ path: 'analysis.overview', kind: 'wrong_type' }])
    expect(JSON.parse(verdict.document)).toMatchObject({ overview: ['anything'] })
    expect(verdict).not.toHaveProperty('raw')
  })

  it('reports a field once, however many elements have it', () => {
    const items = [1, 2, 3].map(numero_item => ({ numero_item, quantidade: 'x' }))
    expect(accepted({ items }).drift).toMatchObject([
      { path: 'analysis.items[].quantidade', kind: 'wrong_type', count: 3 },
    ])
  })

  it.each([
    ['a required field is missing', { status: undefined }, 'status'],
    ['a required field is null', { created_at: null }, 'created_at'],
    ['what may not be null has a wrong type', { updated_at: 7 }, 'updated_at'],
  ])('is rejected where %s', (_, fields, path) => {
    expect(notice(fields)).toMatchObject({ ok: false, editalId: idOf(1), path })
  })

  it.each([
    ['', 'the body is empty'],
    ['<html>', 'the body is not JSON'],
    ['{"id":"n0', 'the body is truncated JSON'],
    ['[]', 'the body is not a JSON object'],
  ])('is rejected if the body is not a JSON object: %j', (text, reason) => {
    const raw = Buffer.from(text)
    expect(validateNotice(raw, idOf(1))).toEqual({ ok: false, editalId: idOf(1), reason, path: '$', raw })
  })

  it('is rejected if it is about another notice', () => {
    expect(validateNotice(bytesOf(edital), idOf(2))).toMatchObject({
      ...{ ok: false, editalId: idOf(2), reason: 'the document is about another notice', path: 'id' },
    })
  })
})

describe('a page', () => {
  const page = (editais: readonly unknown[], fields: object = {}) =>
    validatePage(bytesOf({ editais, count: editais.length, total: 2, limit: 200, offset: 0, ...fields }))

  it('has a verdict for each notice: one that cannot be used costs no other, and keeps its own bytes', () => {
    const broken = { ...noticeEntry(2).edital, status: undefined }
    expect(page([edital, broken])).toMatchObject({
      ...{ total: 2, limit: 200, offset: 0, drift: [] },
      notices: [
        { ok: true, editalId: idOf(1) },
        { ok: false, editalId: idOf(2), path: 'status', raw: bytesOf(broken) },
      ],
    })
  })

  it('reports what the contract does not name', () => {
    expect(page([], { next: 'x' })).toMatchObject({ drift: [{ path: 'page.next', kind: 'unknown_field' }] })
  })

  it('reports only the first unknown properties, so that a hostile server fills no memory with them', () => {
    const unknown = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`novo_${index}`, index]))
    const { drift } = page([], unknown) as Page
    expect(drift.map(({ path }) => path)).toEqual(
      Array.from({ length: 50 }, (_, index) => `page.novo_${index}`),
    )
  })

  it('cannot be read with a total that no company has, or without its list', () => {
    expect(page([], { total: 1_000_000 })).toMatchObject({ total: 1_000_000 })
    expect(page([], { total: 1_000_001 })).toMatch(/^"total" is 1000001/)
    expect(page([], { editais: null })).toMatch(/^"editais" is missing/)
  })
})
