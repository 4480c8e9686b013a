import { describe, expect, it } from 'vitest'
import { reportHere } from '#test/support/here.ts'
import {
  editalOf,
  fullAnalysis,
  idAt,
  type LogLine,
  openCompany,
  type PreparedCompany,
  readLog,
} from '#test/support/prepared.ts'
import { queryLatest } from '#test/support/project.ts'

type DriftRow = { path: string; kind: string; sample: string; count: number }

describe('a document with more than the contract', () => {
  it('loads, keeps its unknown properties in the raw log, and reports each as drift', async () => {
    const company = await openCompany(12)
    const [listed, analysed] = [idAt(company, 0), idAt(company, 1)]
    company.world.update(listed, { edital: { prazo_dias: 3, esfera: { nome: 'municipal' } } })
    const whole = fullAnalysis(company, analysed)
    const widened = {
      ...whole,
      versao: 2,
      verdict: { ...whole.verdict, score: 0.7 },
      requirements: [{ ...whole.requirements[0], pagina: 4 }],
      items: [
        { ...whole.items[0], ncm: '4015' },
        { ...whole.items[0], ncm: '4016' },
      ],
      alerts: [{ ...whole.alerts[0], fonte: 'edital' }],
      pricing: { ...whole.pricing, moeda: 'BRL' },
      orgao_report: { ...whole.orgao_report, atraso_dias: 12 },
      overview: { ...whole.overview, modo_disputa: 'Aberto' },
    }
    company.bodies.set(analysed, JSON.stringify(widened))
    company.pageExtras.next = null

    const report = await reportHere(company.environment)

    expect(report).toMatchObject({ status: 'ok', listed: 12, loaded: 12, quarantined: 0 })
    expect(await driftOf(company)).toEqual([
      { path: 'analysis.alerts[].fonte', kind: 'unknown_field', sample: 'edital', count: 1 },
      { path: 'analysis.items[].ncm', kind: 'unknown_field', sample: '4015', count: 2 },
      { path: 'analysis.orgao_report.atraso_dias', kind: 'unknown_field', sample: '12', count: 1 },
      { path: 'analysis.pricing.moeda', kind: 'unknown_field', sample: 'BRL', count: 1 },
      { path: 'analysis.requirements[].pagina', kind: 'unknown_field', sample: '4', count: 1 },
      { path: 'analysis.verdict.score', kind: 'unknown_field', sample: '0.7', count: 1 },
      { path: 'analysis.versao', kind: 'unknown_field', sample: '2', count: 1 },
      { path: 'notice.esfera', kind: 'unknown_field', sample: '{"nome":"municipal"}', count: 1 },
      { path: 'notice.prazo_dias', kind: 'unknown_field', sample: '3', count: 1 },
      { path: 'page.next', kind: 'unknown_field', sample: 'null', count: 1 },
    ])
    const log = await readLog(company)
    expect(lineOf(log, 'notice', listed).notice).toEqual(editalWithCanonicalTimes(company, listed))
    expect(lineOf(log, 'analysis', analysed).analysis).toEqual(widened)
  })
})

function lineOf(log: readonly LogLine[], type: string, id: string): LogLine {
  const line = log.find(line => line.type === type && line.edital_id === id)
  if (!line) throw new Error(`no ${type} line of ${id}`)
  return line
}

/** The log cuts nanoseconds from the document; the worlds write microseconds at most. */
function editalWithCanonicalTimes(company: PreparedCompany, id: string) {
  const { data_sessao, ...edital } = editalOf(company, id)
  return data_sessao === undefined ? edital : { ...edital, data_sessao: expect.any(String) }
}

async function driftOf({ environment }: PreparedCompany): Promise<DriftRow[]> {
  return await queryLatest(
    environment,
    'SELECT path, kind, sample, "count" FROM schema_drift ORDER BY path, kind',
  )
}
