import { describe, expect, it } from 'vitest'
import type { RunReport } from '#src/core/company/run_report.ts'
import { listSealedSegments } from '#src/core/rawlog/files.ts'
import { RawLogWriter } from '#src/core/rawlog/writer.ts'
import { hashContent } from '#src/lib/hash.ts'
import { reportHere } from '#test/support/here.ts'
import { notices } from '#test/support/notices.ts'
import {
  editalOf,
  fullAnalysis,
  idAt,
  openCompany,
  type PreparedCompany,
  rawDirectory,
  textWith,
} from '#test/support/prepared.ts'
import { companyDirectory, filesBelow, queryLatest } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

describe('replay', () => {
  it('with nothing quarantined reports that, and writes neither a segment nor a snapshot', async () => {
    const company = await startSynced(notices(1, 3))
    const before = await filesBelow(companyDirectory(company.environment))
    const ended = await runShared(['replay'], company.environment)

    expect(ended).toEqual({ code: 0, stdout: 'Nothing is quarantined.\n', stderr: '' })
    const after = await filesBelow(companyDirectory(company.environment))
    const durable = (path: string) => /\/(raw|lake)\//.test(path)
    expect([...after.keys()].filter(durable)).toEqual([...before.keys()].filter(durable))
  })

  it('of records that are still unusable is partial, and leaves them unchanged', async () => {
    const company = await openCompany(5)
    company.bodies.set(idAt(company, 0), '{"id":')
    company.bodies.set(
      idAt(company, 1),
      JSON.stringify({ ...fullAnalysis(company, idAt(company, 1)), items: {} }),
    )
    company.listTexts.set('without an id', '{}')
    await reportHere(company.environment, {}, 3)
    const before = await quarantineOf(company)
    expect(before).toHaveLength(3)
    company.sandbox.requests.reset()

    const report = await replayOnce(company, 3)

    expect(report).toMatchObject({ mode: 'replay', status: 'partial', listed: 2, quarantined: 2, loaded: 0 })
    expect(report.error).toContain('2 records still cannot be used')
    expect(await quarantineOf(company)).toEqual(before)
    expect(company.sandbox.requests.total).toBe(0)
    // The bytes are still where the next version of the contract will look for them.
    expect(await replayOnce(company, 3)).toMatchObject({ listed: 2, quarantined: 2 })
  })

  it('loads what an older version rejected and this one can use, without a request', async () => {
    const company = await openCompany(5)
    const [analysed, broken] = [idAt(company, 0), idAt(company, 1)]
    company.bodies.set(analysed, 'null')
    company.bodies.set(broken, 'null')
    await reportHere(company.environment, {}, 3)
    const { updated_at } = editalOf(company, analysed)
    const good = { ...fullAnalysis(company, analysed), overview: undefined }
    const fresh = { ...editalOf(company, idAt(company, 2)), id: 'fresh-1', objeto: 'Objeto novo' }
    await logRejected(company, [
      { edital_id: analysed, kind: 'analysis', body: textWith(good, '"orgao":7'), updated_at },
      { edital_id: 'fresh-1', kind: 'notice', body: JSON.stringify(fresh) },
    ])
    company.sandbox.requests.reset()

    const report = await replayOnce(company, 3)

    expect(report).toMatchObject({ status: 'partial', listed: 3, loaded: 2, quarantined: 1, requests: 0 })
    expect(company.sandbox.requests.total).toBe(0)
    const { environment } = company
    expect(
      await queryLatest(
        environment,
        `SELECT edital_id, kind, resolved_at IS NOT NULL AS resolved FROM quarantine ORDER BY kind, resolved`,
      ),
    ).toEqual([
      { edital_id: broken, kind: 'analysis', resolved: false },
      { edital_id: analysed, kind: 'analysis', resolved: true },
      { edital_id: 'fresh-1', kind: 'notice', resolved: true },
    ])
    expect(
      await queryLatest(
        environment,
        `SELECT analysis_level, descricao, analysis_state, fetched_at::VARCHAR AS fetched_at FROM analyses
         JOIN items USING (edital_id) JOIN editais USING (edital_id) WHERE edital_id = '${analysed}'`,
      ),
    ).toEqual([
      {
        analysis_level: 'deep',
        descricao: 'Luva',
        analysis_state: 'current',
        fetched_at: '2026-01-10 10:00:00+00',
      },
    ])
    expect(
      await queryLatest(
        environment,
        `SELECT objeto, analysis_state FROM editais WHERE edital_id = 'fresh-1'`,
      ),
    ).toEqual([{ objeto: 'Objeto novo', analysis_state: 'pending' }])
    expect(await queryLatest(environment, 'SELECT path, kind FROM schema_drift')).toEqual([
      { path: 'analysis.orgao', kind: 'wrong_type' },
    ])
  })
})

type OldRejection = { edital_id: string; kind: 'notice' | 'analysis'; body: string; updated_at?: string }

/** Writes a segment as an older version of the program would have, long ago. */
async function logRejected(company: PreparedCompany, records: readonly OldRejection[]): Promise<void> {
  const directory = rawDirectory(company.environment)
  const firstNumber = (await listSealedSegments(directory)).length + 1
  const now = () => new Date('2026-01-10T10:00:00Z')
  const log = new RawLogWriter({ directory, firstNumber, runId: 'older', now })
  await log.append({ type: 'run_started', mode: 'incremental', analysis_statuses: [], company: 'acme' })
  for (const { body, ...record } of records) {
    await log.append({
      type: 'rejected',
      ...record,
      reason: 'expected something else',
      path: '$',
      hash: hashContent(body),
      raw: Buffer.from(body).toString('base64'),
      excerpt: body.slice(0, 2048),
    })
  }
  await log.seal()
  await log.close()
}

async function replayOnce(company: PreparedCompany, code: number): Promise<RunReport> {
  const ended = await runShared(['replay', '--json'], company.environment)
  expect(ended, ended.stderr).toMatchObject({ code })
  return JSON.parse(ended.stdout) as RunReport
}

async function quarantineOf({ environment }: PreparedCompany) {
  return await queryLatest(environment, 'FROM quarantine ORDER BY edital_id')
}
