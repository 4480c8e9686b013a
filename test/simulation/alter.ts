import type { Random } from '#src/sandbox/random.ts'
import type { AnalysisDocument, Edital } from '#src/sandbox/world.ts'

/** A document as sent, and as it must be read; null if it can only be quarantined. */
export type Altered<T> = { readonly sent: unknown; readonly read: T | null }

type Fields = Readonly<Record<string, unknown>>
type Alteration = { readonly sent: Fields; readonly read: Fields | null }

const NULLED = (name: string, value: unknown): Alteration => ({
  sent: { [name]: value },
  read: { [name]: undefined },
})
const KEPT = (fields: Fields): Alteration => ({ sent: fields, read: fields })
const REFUSED = (fields: Fields): Alteration => ({ sent: fields, read: null })

/** The company's key; a server may repeat it in any text. */
export const KEY = 'edk_simulated_9b1c5e7d3f0a2468'

/** How each is read follows docs/contract.md#notice and docs/internals/fetch.md#validation. */
const NOTICES: readonly Alteration[] = [
  { sent: { dias_restantes: 3, novo: { a: [1] } }, read: {} },
  { sent: { eco: `chave ${KEY}` }, read: {} },
  NULLED('valor_estimado', '12.5'),
  NULLED('objeto', 5),
  NULLED('pncp_url', ['x']),
  NULLED('uf', { a: 1 }),
  KEPT({ status: 'archived' }),
  REFUSED({ updated_at: undefined }),
  REFUSED({ participation_confirmed: 'yes' }),
  REFUSED({ id: 7 }),
  REFUSED({ created_at: 'ontem' }),
]

const ANALYSES: readonly Alteration[] = [
  { sent: { parecer: { texto: 'x' } }, read: {} },
  { sent: { eco: [KEY] }, read: {} },
  KEPT({ analysis_level: 'deepest' }),
  { sent: { orgao_report: 'baixo' }, read: { orgao_report: undefined } },
  REFUSED({ requirements: {} }),
  REFUSED({ items: 'none' }),
  REFUSED({ id: 'another' }),
  REFUSED({ analyzed: undefined }),
]

/** Alters this share of the notices, as a careless server would. */
export function alterNotice(edital: Edital, random: Random, share: number): Altered<Edital> {
  return alter(edital, random, share, NOTICES) as Altered<Edital>
}

export function alterAnalysis(
  analysis: AnalysisDocument,
  random: Random,
  share: number,
): Altered<AnalysisDocument> {
  return alter(analysis, random, share, ANALYSES) as Altered<AnalysisDocument>
}

function alter(document: Fields, random: Random, share: number, all: readonly Alteration[]): Altered<Fields> {
  if (!random.chance(share)) return { sent: document, read: document }
  const { sent, read } = random.pick(all)
  return { sent: { ...document, ...sent }, read: read && { ...document, ...read } }
}
