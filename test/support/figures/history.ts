import type { Entry } from '#src/sandbox/world.ts'
import { localTimeOf } from './calendar.ts'
import {
  ANALYSIS,
  contractText,
  type Departure,
  type Document,
  departures,
  isUsable,
  NOTICE,
  numberOf,
  textOf,
  timeOf,
} from './contract.ts'
import { isSuspect } from './picture.ts'
import { seen } from './spelling.ts'

/** What the API served to a run; null if it answered with errors. */
export type Reading = { readonly at: Date; readonly served: readonly Entry[] | null }

/** The known state of a notice after all runs. */
export type Followed = {
  /** Its last usable documents. */
  edital: Document
  analysis: Document | null
  /** The `updated_at` for which that analysis was read. */
  analysedFor: unknown
  /** Its stays in phases: from the run that first saw it there to the run that saw it elsewhere, or gone. */
  readonly phases: { readonly status: string; readonly since: Date; until: Date | null }[]
  /** Its verdicts, each from the run that first saw it. */
  readonly verdicts: Verdict[]
  /** Its different analyses, each from the run that first saw it. */
  readonly versions: { readonly analysis: Document; readonly at: Date }[]
  /** When it was first seen with an analysis that is more than a screening. */
  analysedAt: Date | null
  /** When its list fields were seen to change. */
  readonly changes: Change[]
  goneAt: Date | null
}

export type Verdict = {
  readonly recommendation: string | null
  readonly reason: string | null
  readonly at: Date
}

/** A list field before and after, as readers see it. */
type Change = {
  readonly kind: 'Sessão antecipada' | 'Sessão remarcada' | 'Valor alterado' | 'Objeto alterado'
  readonly from: string
  readonly to: string
  /** If it is one of the session, and both are known. */
  readonly sessions?: readonly Temporal.PlainDateTime[] | undefined
  readonly at: Date
}

/** A record that was unusable when last read. */
export type SetAside = { readonly id: string; readonly kind: 'notice' | 'analysis'; readonly at: Date }

export type Drift = Departure & { readonly count: number; readonly lastAt: Date }

export type History = {
  readonly followed: ReadonlyMap<string, Followed>
  readonly setAside: readonly SetAside[]
  readonly drift: readonly Drift[]
  /** The last run, and the last one that read everything. */
  readonly lastRun: { readonly at: Date; readonly failed: boolean }
  readonly lastGoodAt: Date
  /** The first run that read everything. */
  readonly firstGoodAt: Date
  readonly readings: readonly Reading[]
  /** Phases whose analyses the last run would have requested. */
  readonly analysed: readonly string[]
}

/** Local, however it is written; without an hour at midnight. */
function sessionText({ data_sessao }: Document): string {
  const time = timeOf(data_sessao)
  const [, year, month, day, hour] = /^(.+)-(..)-(..)T(.....)/.exec(time ? `${localTimeOf(time)}` : '') ?? []
  if (!year) return 'sem data'
  return `${day}/${month}/${year}${hour === '00:00' ? '' : ` ${hour}`}`
}

function valueText({ valor_estimado }: Document): string {
  const value = numberOf(valor_estimado)
  if (!value || isSuspect(value)) return 'não informado'
  return `R$ ${value.toLocaleString('pt-BR', { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`
}

function unseen(edital: Document): Followed {
  const lists = { phases: [], verdicts: [], versions: [], changes: [] }
  return { edital, analysis: null, analysedFor: null, analysedAt: null, goneAt: null, ...lists }
}

function changesBetween(before: Document, after: Document, at: Date): Change[] {
  const [value, newValue] = [before, after].map(({ valor_estimado }) => numberOf(valor_estimado))
  const [day, newDay] = [before, after].map(({ data_sessao }) => timeOf(data_sessao))
  const [text = '', newText = ''] = [before, after].map(
    ({ objeto }) => seen(textOf(objeto)) ?? 'não informado',
  )
  const sessions = day && newDay ? [localTimeOf(day), localTimeOf(newDay)] : undefined
  const [old, young] = sessions ?? []
  const isEarlier = old && young && Temporal.PlainDateTime.compare(young, old) < 0
  const session = {
    kind: isEarlier ? 'Sessão antecipada' : 'Sessão remarcada',
    ...{ from: sessionText(before), to: sessionText(after), at, sessions },
  } as const
  return [
    ...(session.from === session.to ? [] : [session]),
    ...(value === newValue
      ? []
      : [{ kind: 'Valor alterado', from: valueText(before), to: valueText(after), at } as const]),
    ...(text === newText
      ? []
      : [
          {
            kind: 'Objeto alterado',
            from: sinceChange(text, newText),
            to: sinceChange(newText, text),
            at,
          } as const,
        ]),
  ]
}

/** A text from two words before the change on, if that is not near its beginning. */
function sinceChange(text: string, other: string): string {
  const [words, others] = [text.split(' '), other.split(' ')]
  const same = words.findIndex((word, index) => word !== others[index])
  const first = same === -1 ? words.length : same
  return first < 6 ? text : `… ${words.slice(first - 2).join(' ')}`
}

function noteVerdict({ verdicts }: Followed, { verdict }: Document, at: Date): void {
  const { recommendation, reason } = (verdict ?? {}) as Document
  const given = textOf(recommendation)
  if (verdicts.at(-1)?.recommendation !== given)
    verdicts.push({ recommendation: given, reason: textOf(reason), at })
}

/** The knowledge that follows from reading these documents at these times, and nothing else. */
export function historyOf(readings: readonly Reading[], analysed: readonly string[]): History {
  const followed = new Map<string, Followed>()
  const setAside = new Map<string, SetAside>()
  const drift = new Map<string, Drift>()

  function note(document: Document, contract: typeof NOTICE, at: Date): void {
    for (const { path, kind } of departures(document, contract)) {
      const key = `${kind} ${path}`
      drift.set(key, { path, kind, count: (drift.get(key)?.count ?? 0) + 1, lastAt: at })
    }
  }

  /** True if the record is usable; otherwise it is set aside until it is. */
  function take(id: string, document: Document, contract: typeof NOTICE, at: Date): boolean {
    const key = `${contract.root} ${id}`
    const usable = isUsable(document, contract)
    if (usable) setAside.delete(key)
    else setAside.set(key, { id, kind: contract.root, at })
    return usable
  }

  function readNotice(edital: Document, at: Date): Followed {
    const id = String(edital.id)
    const before = followed.get(id)
    const seen: Followed = before ?? unseen(edital)
    const isNews =
      !before || before.goneAt || contractText(before.edital, NOTICE) !== contractText(edital, NOTICE)
    if (isNews) note(edital, NOTICE, at)
    const status = String(edital.status)
    const stay = seen.phases.at(-1)
    if (stay?.status !== status || stay.until) {
      if (stay) stay.until ??= at
      seen.phases.push({ status, since: at, until: null })
    }
    if (before) seen.changes.push(...changesBetween(before.edital, edital, at))
    followed.set(id, Object.assign(seen, { edital, goneAt: null }))
    return seen
  }

  function readAnalysis(notice: Followed, analysis: Document, at: Date): void {
    if (JSON.stringify(notice.analysis) !== JSON.stringify(analysis)) {
      note(analysis, ANALYSIS, at)
      notice.versions.push({ analysis, at })
    }
    noteVerdict(notice, analysis, at)
    if (['medium', 'deep'].includes(String(analysis.analysis_level))) notice.analysedAt ??= at
    Object.assign(notice, { analysis, analysedFor: notice.edital.updated_at })
  }

  function miss(shown: ReadonlySet<string>, at: Date): void {
    for (const [id, notice] of followed) {
      if (shown.has(id)) continue
      notice.goneAt ??= at
      const stay = notice.phases.at(-1)
      if (stay) stay.until ??= at
    }
    for (const [key, { id }] of setAside) if (!shown.has(id)) setAside.delete(key)
  }

  for (const { at, served } of readings) {
    if (!served) continue
    for (const { edital, analysis } of served) {
      if (!take(edital.id, edital, NOTICE, at)) continue
      const notice = readNotice(edital, at)
      if (analysis && take(edital.id, analysis, ANALYSIS, at)) readAnalysis(notice, analysis, at)
    }
    miss(new Set(served.map(({ edital }) => edital.id)), at)
  }
  const good = readings.filter(({ served }) => served)
  const [last, lastGood, first] = [readings.at(-1), good.at(-1), good[0]]
  if (!last || !lastGood || !first) throw new RangeError('no reading was successful')
  return {
    followed,
    analysed,
    ...{ setAside: [...setAside.values()], drift: [...drift.values()] },
    lastRun: { at: last.at, failed: last.served === null },
    lastGoodAt: lastGood.at,
    firstGoodAt: first.at,
    readings,
  }
}
