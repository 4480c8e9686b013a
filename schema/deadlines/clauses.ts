import { type ActToken, actsIn, type TimeToken } from './tokens.ts'

/** A statement of its own: a sentence, a line, an item, a cell of a table. */
export type Clause = {
  readonly start: number
  readonly end: number
  /** The place where the words about its first time begin: in the clause before, if that one is only a label. */
  readonly labelStart: number
  readonly times: readonly TimeToken[]
  readonly acts: readonly ActToken[]
}

/** A line that begins with "a 4 de dezembro" continues the one before. */
const SEPARATOR = /\n(?!\s?ao?\s(?:dia\s)?\d)|[;|•·▪●◦✅]|\.(?=\s(?!p\/)|$)|\?|!/g
/** Behind these, a full stop is part of the word. */
const ABBREVIATION =
  /\b(?:arts?|n|no|nr|num|inc|par|fls?|p|pag|obs|ex|dr|sr|d|u|h|hs|hrs|min|dec|res|lic|cf|c|incs?)$/
const LONGEST_ABBREVIATION = 6

/** Splits a text into clauses. @param folded see `PlainText`. @param times of it. */
export function clausesOf(folded: string, times: readonly TimeToken[]): Clause[] {
  const acts = actsIn(folded)
  const clauses: Clause[] = []
  let [start, firstTime, firstAct] = [0, 0, 0]
  for (const end of [...endsOf(folded, times), folded.length]) {
    const [lastTime, lastAct] = [countBefore(times, end, firstTime), countBefore(acts, end, firstAct)]
    const own = times.slice(firstTime, lastTime)
    const label = clauses.at(-1)
    const isLabelled = label?.times.length === 0 && !/[a-z]/.test(folded.slice(start, own[0]?.start ?? start))
    clauses.push({
      ...{ start, end, times: own, acts: acts.slice(firstAct, lastAct) },
      labelStart: isLabelled ? label.labelStart : start,
    })
    start = end + 1
    firstTime = lastTime
    firstAct = lastAct
  }
  return clauses
}

function countBefore(tokens: readonly { readonly start: number }[], end: number, from: number): number {
  let count = from
  while (count < tokens.length && (tokens[count] as { start: number }).start < end) count += 1
  return count
}

function endsOf(folded: string, times: readonly TimeToken[]): number[] {
  const ends: number[] = []
  let at = 0
  for (const { index, 0: mark } of folded.matchAll(SEPARATOR)) {
    while (at < times.length && (times[at] as TimeToken).end < index) at += 1
    const time = times[at]
    const isInTime = time !== undefined && time.start < index && index < time.end - 1
    const endsTime = time !== undefined && (time.end === index || time.end === index + 1)
    const word = folded.slice(Math.max(0, index - LONGEST_ABBREVIATION), index)
    if (!isInTime && (mark !== '.' || endsTime || !ABBREVIATION.test(word))) ends.push(index)
  }
  return ends
}
