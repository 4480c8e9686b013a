import { type Verdict, validateAnalysis, validateNotice, validatePage } from '#src/core/pipeline/validate.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { type Tree, treeOf } from './mutations.ts'
import { judge, type Root } from './oracle/judge.ts'
import { microsOf } from './oracle/moments.ts'
import { fullAnalysis } from './prepared.ts'

/** Valid documents to mutate: notices of every phase, analyses of every level, most of them small. */
export function validDocuments(): Readonly<Record<Root, readonly Tree[]>> {
  const world = generateWorld({
    seed: 11,
    company: 'acme',
    notices: 12,
    start: new Date('2026-01-01T00:00:00Z'),
  })
  const entries = world.ids().flatMap(each => world.entry(each) ?? [])
  const small = world.ids().map(each => fullAnalysis({ world }, each))
  const short = entries.flatMap(({ analysis }) => (analysis ? [shortened(analysis)] : []))
  return {
    notice: entries.map(({ edital }) => treeOf({ ...everyField, ...edital })),
    analysis: [...small, ...short].map(treeOf),
  }
}

const everyField = {
  orgao: 'Município',
  objeto: 'Luvas',
  numero: '1/2026',
  modalidade: 'Pregão',
  uf: 'SC',
  valor_estimado: 1234.56,
  data_sessao: '2026-03-01T09:00:00',
  pncp_url: 'https://pncp.gov.br/x',
  discard_reason: 'Preço',
  committed_at: '2026-02-01T12:00:00Z',
}

/** Shortens lists to two elements: a third would find no other bugs than a second. */
function shortened(analysis: object): object {
  return Object.fromEntries(
    Object.entries(analysis).map(([name, value]) => [name, Array.isArray(value) ? value.slice(0, 2) : value]),
  )
}

const VALIDATE = { notice: validateNotice, analysis: validateAnalysis }
const MOMENTS = ['data_sessao', 'committed_at', 'created_at', 'updated_at']

/**
 * Validates a body and compares the verdict with the oracle's judgement.
 * @throws Error with the difference.
 */
export function checkVerdict(bytes: Buffer, root: Root, id: string): void {
  const sent = Buffer.from(bytes)
  compareVerdict(VALIDATE[root](bytes, id), sent, root, id)
}

/**
 * The same for a notice as an element of a list, between two valid ones that it must not affect.
 * @param bytes JSON.
 */
export function checkListed(bytes: Buffer, good: Buffer): void {
  const list = Buffer.concat([PAGE_BEGINS, good, COMMA, bytes, COMMA, good, PAGE_ENDS])
  const page = validatePage(list)
  if (typeof page === 'string') throw new Error(`the page cannot be read: ${page}`)
  const [before, verdict, after] = page.notices as [Verdict, Verdict, Verdict]
  expected(before.ok && after.ok && before.document === after.document, 'its neighbours have changed')
  compareVerdict(verdict, bytes, 'notice', null)
}

const PAGE_BEGINS = Buffer.from('{"editais":[')
const PAGE_ENDS = Buffer.from('],"count":3,"total":3,"limit":200,"offset":0}')
const COMMA = Buffer.from(',')

function compareVerdict(verdict: Verdict, sent: Buffer, root: Root, id: string | null): void {
  const judgement = judge(sent, root, id)
  const about = id ?? (judgement.usable ? judgement.document.id : verdict.editalId)
  expected(verdict.editalId === about, 'it is about another notice')
  if (!judgement.usable) {
    expected(!verdict.ok, `it is accepted, with faults at ${[...judgement.faults].slice(0, 5)}`)
    expected(
      judgement.faults.has(verdict.path),
      `the fault is reported at ${verdict.path}, not at ${[...judgement.faults].slice(0, 5)}`,
    )
    expected(verdict.raw.equals(sent), 'its bytes are not kept')
    return
  }
  expected(verdict.ok, verdict.ok ? '' : `it is rejected: ${verdict.reason} at ${verdict.path}`)
  const document = JSON.parse(verdict.document) as Record<string, unknown>
  for (const name of MOMENTS) {
    const [written, kept] = [judgement.document[name], document[name]]
    if (typeof written !== 'string' || typeof kept !== 'string' || !(name in document)) continue
    expected(String(microsOf(written)) === String(microsOf(kept)), `${name} is ${kept}, not ${written}`)
    document[name] = written
  }
  expected(
    !/[\n\r]/.test(verdict.document) && verdict.document.isWellFormed(),
    'it is not one well-formed line',
  )
  const [kept, meant] = [JSON.stringify(document), JSON.stringify(judgement.document)]
  expected(kept === meant, `it is kept as ${kept.slice(0, 3000)}, not as ${meant.slice(0, 3000)}`)
  expected((verdict.raw === undefined) === judgement.whole, `its bytes are ${verdict.raw ? '' : 'not '}kept`)
  expected(verdict.raw?.equals(sent) ?? true, 'other bytes are kept')
  const drift = new Set(verdict.drift.map(({ kind, path }) => `${kind} ${path}`))
  if (drift.size >= 50 || judgement.drift.size >= 50) return
  const differing = [...drift.symmetricDifference(judgement.drift)]
  expected(differing.length === 0, `drift that only one of the two reports: ${differing}`)
}

function expected(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise)
}
