import { describe, expect, it } from 'vitest'
import { reportHere } from '#test/support/here.ts'
import {
  editalOf,
  type FullAnalysis,
  fullAnalysis,
  idAt,
  openCompany,
  type PreparedCompany,
  readLog,
} from '#test/support/prepared.ts'
import { queryLatest } from '#test/support/project.ts'

type Broken = { body: (good: FullAnalysis) => string; reason: string; path: string }

/** One of each kind: `test/corpus/analysis` has every reason. */
const BROKEN: Readonly<Record<string, Broken>> = {
  'without verdict': {
    body: good => JSON.stringify({ ...good, verdict: undefined }),
    reason: 'a required field is missing',
    path: 'verdict',
  },
  'an HTML page': {
    body: () => '<!DOCTYPE html><title>Login</title>',
    reason: 'the body is not JSON',
    path: '$',
  },
}

describe('an unusable analysis', () => {
  it('is quarantined with its reason, path and bytes, while every other notice loads', async () => {
    const company = await openCompany(Object.keys(BROKEN).length + 3)
    const cases = Object.entries(BROKEN).map(([name, broken], position) => {
      const id = idAt(company, position)
      return { ...{ name, id }, ...broken, body: broken.body(fullAnalysis(company, id)) }
    })
    for (const { id, body } of cases) company.bodies.set(id, body)

    const report = await reportHere(company.environment, {}, 3)

    expect(report).toMatchObject({ status: 'partial', loaded: 3, quarantined: cases.length, failed: 0 })
    const rows = await queryLatest<Record<string, unknown> & { edital_id: string }>(
      company.environment,
      `SELECT edital_id, kind, reason, path, attempts, resolved_at, body_excerpt,
         date_diff('minute', observed_at, next_attempt_at) AS wait FROM quarantine`,
    )
    const byId = new Map(rows.map(({ edital_id, ...row }) => [edital_id, row]))
    const log = await readLog(company)
    for (const { name, id, body, reason, path } of cases) {
      expect(byId.get(id), name).toEqual({
        kind: 'analysis',
        reason,
        path,
        attempts: 1,
        wait: 15,
        resolved_at: null,
        body_excerpt: body.slice(0, 2048),
      })
      const line = log.find(line => line.type === 'rejected' && line.edital_id === id)
      expect(Buffer.from(String(line?.raw), 'base64').equals(Buffer.from(body)), name).toBe(true)
    }
    expect(byId.size).toBe(cases.length)
  })
})

describe('an unusable listed notice', () => {
  /** Values of `id` that would change the path of a URL, or are not ids at all. */
  const IDS: readonly unknown[] = [
    ...['a/b', '../escape', '..', '.', 'a b', 'a"b', "a'b", 'a%2fb', 'a?b', 'a#b', 'a\\b', 'a;b', 'a\nb', ''],
    ...['é', '\ud800', 'x'.repeat(201), 5, null, {}, undefined],
  ]

  it('with an invalid id is quarantined, never requested, and affects no other', async () => {
    const company = await openCompany(4)
    const template = editalOf(company, idAt(company, 0))
    for (const [number, id] of IDS.entries()) {
      company.listTexts.set(`bad ${number}`, JSON.stringify({ ...template, numero: `${number}`, id }))
    }
    for (const text of ['null', '5', '"text"', '[]', '{}']) company.listTexts.set(`odd ${text}`, text)
    const bad = company.listTexts.size

    const report = await reportHere(company.environment, {}, 3)

    expect(report).toMatchObject({ listed: 4 + bad, loaded: 4, quarantined: bad, scan_complete: true })
    const { byKind, byId } = company.sandbox.requests
    expect(byKind).toEqual({ list: 1, notice: 0, analysis: 4, other: 0 })
    expect([...byId.keys()].sort()).toEqual([...company.ids].sort())
    expect(
      await queryLatest(
        company.environment,
        'SELECT kind, edital_id, path, count(*) AS records FROM quarantine GROUP BY ALL ORDER BY path',
      ),
    ).toEqual([
      { kind: 'notice', edital_id: null, path: '$', records: 4 },
      { kind: 'notice', edital_id: null, path: 'id', records: IDS.length + 1 },
    ])
    expect(await queryLatest(company.environment, 'SELECT count(*) AS notices FROM editais')).toEqual([
      { notices: 4 },
    ])

    const second = await reportHere(company.environment)
    expect(second).toMatchObject({ status: 'ok', unchanged: 4, deferred: bad, quarantined: 0 })
  })

  it('with an invalid required field keeps its previous version, and is resolved when it is valid again', async () => {
    const company = await openCompany(4)
    const [known, fresh] = [idAt(company, 0), 'fresh-1']
    await reportHere(company.environment)
    const good = editalOf(company, known)
    company.listTexts.set(known, JSON.stringify({ ...good, objeto: 'Outro', participation_confirmed: 'yes' }))
    company.listTexts.set(fresh, JSON.stringify({ ...good, id: fresh, created_at: 'ontem' }))
    company.sandbox.requests.reset()
    const broken = await reportHere(company.environment, {}, 3)

    expect(broken).toMatchObject({ listed: 5, unchanged: 3, quarantined: 2, tombstoned: 0, added: 0 })
    expect(company.sandbox.requests.byKind).toEqual({ list: 1, notice: 0, analysis: 0, other: 0 })
    expect(
      await queryLatest(company.environment, 'SELECT edital_id, kind, path FROM quarantine ORDER BY path'),
    ).toEqual([
      { edital_id: fresh, kind: 'notice', path: 'created_at' },
      { edital_id: known, kind: 'notice', path: 'participation_confirmed' },
    ])
    expect(
      await queryLatest(company.environment, `SELECT objeto FROM editais WHERE edital_id = '${known}'`),
    ).toEqual([{ objeto: good.objeto }])

    company.listTexts.delete(fresh)
    company.listTexts.set(known, JSON.stringify({ ...good, objeto: 'Outro' }))
    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', listed: 4, changed: 1 })
    expect((await resolution(company))[known]).toBe(true)
    expect(
      await queryLatest(company.environment, `SELECT objeto FROM editais WHERE edital_id = '${known}'`),
    ).toEqual([{ objeto: 'Outro' }])
  })
})

/** Whether the quarantined record of each notice is resolved. */
async function resolution({ environment }: PreparedCompany): Promise<Record<string, boolean>> {
  const rows = await queryLatest<{ edital_id: string; resolved: boolean }>(
    environment,
    'SELECT edital_id, resolved_at IS NOT NULL AS resolved FROM quarantine',
  )
  return Object.fromEntries(rows.map(({ edital_id, resolved }) => [edital_id, resolved]))
}
