import { join } from 'node:path'
import { listSealedSegments, readLines, segmentPath } from '#src/core/rawlog/files.ts'
import type { RawAnswer } from '#src/sandbox/faults.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import type { SandboxRequest } from '#src/sandbox/requests.ts'
import type { AnalysisDocument, Edital } from '#src/sandbox/world.ts'
import { companyDirectory, type Environment } from './project.ts'
import { type SyncedCompany, startCompany } from './synced.ts'

/** A company whose answers a test can prepare. */
export type PreparedCompany = SyncedCompany & {
  /** The ids of its notices at the start. */
  readonly ids: readonly string[]
  /** Bodies that replace the world's analyses, by notice. */
  readonly bodies: Map<string, string | Uint8Array>
  /** JSON texts that replace the world's notices in the list; those with unknown ids come last. */
  readonly listTexts: Map<string, string>
  /** Further properties of each page of the list. */
  readonly pageExtras: Record<string, unknown>
}

/** Starts a company with this many notices (at most 200: one page), all with an analysis. */
export async function openCompany(notices: number, settings: Environment = {}): Promise<PreparedCompany> {
  const world = generateWorld({ seed: 7, company: 'acme', notices, start: new Date('2026-01-01T00:00:00Z') })
  const company: PreparedCompany = {
    ...(await startCompany(world, settings)),
    ids: world.ids(),
    bodies: new Map(),
    listTexts: new Map(),
    pageExtras: {},
  }
  company.faults.respond = request => prepared(company, request)
  return company
}

function prepared(company: PreparedCompany, { kind, id }: SandboxRequest): RawAnswer | undefined {
  const { world, bodies, listTexts, pageExtras } = company
  const body = id !== null && kind === 'analysis' ? bodies.get(id) : undefined
  if (body !== undefined) return { status: 200, body }
  if (kind !== 'list' || (listTexts.size === 0 && Object.keys(pageExtras).length === 0)) return undefined
  const texts = world.ids().map(id => listTexts.get(id) ?? JSON.stringify(world.entry(id)?.edital))
  for (const [id, text] of listTexts) if (!world.entry(id)) texts.push(text)
  const envelope = { count: texts.length, total: texts.length, limit: 200, offset: 0, ...pageExtras }
  return { status: 200, body: `{"editais":[${texts.join(',')}],${JSON.stringify(envelope).slice(1)}` }
}

/** The id at a position of the company's notices. */
export function idAt({ ids }: Pick<PreparedCompany, 'ids'>, position: number): string {
  const id = ids[position]
  if (id === undefined)
    throw new RangeError(`position ${position} is out of range: there are ${ids.length} notices`)
  return id
}

export function editalOf({ world }: Pick<PreparedCompany, 'world'>, id: string): Edital {
  const entry = world.entry(id)
  if (!entry) throw new RangeError(`there is no notice ${id}`)
  return entry.edital
}

type Part = Readonly<Record<string, unknown>>
export type FullAnalysis = AnalysisDocument & {
  readonly verdict: Part
  readonly overview: Part
  readonly requirements: readonly [Part]
  readonly items: readonly [Part]
  readonly alerts: readonly [Part]
  readonly pricing: Part
  readonly orgao_report: Part
}

/** A valid analysis of this notice with one element in each list and every optional part. */
export function fullAnalysis(company: Pick<PreparedCompany, 'world'>, id: string): FullAnalysis {
  const { pncp_id, status } = editalOf(company, id)
  return {
    id,
    pncp_id,
    status,
    analysis_level: 'deep',
    analyzed: true,
    verdict: { recommendation: 'cautela', reason: 'Prazo curto.', summary: 'Resumo.', bullets: ['Um.'] },
    overview: { lei_aplicavel: 'Lei 14.133/2021', is_srp: false },
    requirements: [{ category: 'outros', title: 'Certidão', required: 'Sim', status: 'green' }],
    items: [{ numero_item: 1, descricao: 'Luva', quantidade: 10, valor_total: 25.5, ai_selected: true }],
    alerts: [{ type: 'risk', severity: 'low', title: 'Prazo', action_type: 'none', legal_thesis: null }],
    pricing: { investimento_total: 100, margem_min: 0.1, risco_pagamento: 'baixo', is_srp: false },
    orgao_report: { payment_risk: 'baixo', status: 'concluido' },
    operational: { prazo_entrega_dias: 10 },
  }
}

/** The document's JSON text with further members, even ones that a JavaScript object cannot hold. */
export function textWith(document: object, members: string): string {
  return `${JSON.stringify(document).slice(0, -1)},${members}}`
}

/** A line of the raw log. */
export type LogLine = Readonly<Record<string, unknown>> & {
  readonly type: string
  readonly edital_id?: string
}

/** All lines of the company's raw log, in order. */
export async function readLog({ environment }: Pick<PreparedCompany, 'environment'>): Promise<LogLine[]> {
  const directory = rawDirectory(environment)
  const lines: LogLine[] = []
  for (const number of await listSealedSegments(directory)) {
    for await (const line of readLines(segmentPath(directory, number))) lines.push(JSON.parse(line))
  }
  return lines
}

export function rawDirectory(environment: Environment): string {
  return join(companyDirectory(environment), 'raw')
}
