import type { Clause } from './clauses.ts'
import { actsIn, type Time, type TimeToken } from './tokens.ts'

/** The meaning of a time: a deadline, or another event's day. `referencia`: of a law, a street, a day that no longer counts. */
export type Role = 'prazo' | 'publicacao' | 'sessao' | 'inicio' | 'referencia'

/** So many characters around a time say what it is. */
export const CONTEXT = 100

/** Words that say what a day is; the nearest one before it counts. */
const CUES: readonly (readonly [Role, string])[] = [
  [
    'inicio',
    'a partir|desde|inicio (?:d[oe] )?(?:recebimento|envio|acolhimento|apresentacao|entrega) (?:d[aeo]s? )?propostas|(?:abertura|reabertura|inicio) d[oe] (?:prazo|periodo)|inicio|inicia[a-z]*',
  ],
  [
    'prazo',
    'ate|prazos?|periodo|limite|termino|fim|final|finda[a-z]*|encerra[a-z]*|vence[a-z]*|expira[a-z]*|ou seja|isto e|quais sejam|qual seja|portanto|assim',
  ],
  ['referencia', '(?:nao havera|sem) expediente|feriados?|facultativo|recesso'],
  [
    'publicacao',
    'publicac[a-z]*|publicad[a-z]*|divulg[a-z]*|disponibiliz[a-z]*|veicul[a-z]*|lancad[a-z]*|dou|doe|dom|diario|imprensa|pncp|a contar|contad[oa]s?',
  ],
  [
    'sessao',
    'antes|anterior(?:es)?|antecedencia|antecede[a-z]*|preced[a-z]*|previ[oa]s?|sessao|abertura|certame|disputa|lances|propostas',
  ],
]
const CUE = new RegExp(CUES.map(([role, words]) => `(?<${role}>\\b(?:${words})\\b)`).join('|'), 'g')
const MAX_CUE_DISTANCE = 60

const BEFORE_RANGE = /\b(?:de|do dia|entre(?: os dias)?|periodo(?: de)?:?)\s+$/
const TIME_OF_DAY =
  /\(?\b(?:as? )?\d{1,2}\s?(?:h(?:oras?|rs?|s)?\b|:|h(?=\d))\s?(?:\d{2})?(?::\d{2})?\s?(?:min\b|h(?:oras?|rs?|s)?\b)?\)?/g
/** Between the days of a range. "E" and a comma can be a list. */
const TO = /^[^a-z0-9]*(?:(?:as?|ate|ao)(?:\s+d[eo])?(?: ao?)?(?: o)?(?: dia)?|-)\s*$/
/** "24/11 às 17h do dia 04/12": the hours behind the first day would be "24/11 às 17h". */
const TO_TIME = /^\s?(?:ate )?as? \d{1,2}\s?(?:h|:)[0-9a-z: ]{0,15}\bd[eo](?: dia)?\s*$/
/** "24/11 até 3 dias úteis antes da sessão" */
const TO_PERIOD = /^\s(?:a|ate|ao)(?: o)?\s$/
const PARENTHESIS = /\([^()]{0,30}\)/g
const AND = /^\s*e(?: o)?(?: dia)?\s*$/

const BEFORE_REFERENCE =
  /\b(?:leis?|decretos?|portarias?|instruc[a-z]*|resoluc[a-z]*|itens|item|subitem|artigos?|arts?\.?|n[o°]?\.?|numero|(?:edital|processo|pregao|concorrencia|dispensa|oficio|ata|memorando)(?=\s[0-9]))\s?(?:(?:n[o°]?\.?|numero|federal|complementar|estadual|municipal|normativa)\s?)*(?:[0-9][0-9./-]*\s?,?\s?(?:de|do dia|datad[oa] de)\s)?$/
/** Behind these, "05/12" is a number with its year, but "05/12/2026" is a day: "Impugnação ao edital 05/12/2026". */
const BEFORE_NUMBER = /\b(?:edital|processo|pregao|concorrencia|dispensa|oficio|ata|memorando)\s$/
const BEFORE_STREET_NAME = /\b(?:rua|r\.|avenida|av\.?|praca|travessa|alameda|rodovia|largo|vila|bairro)\s$/
const BEFORE_CORRECTION =
  /\b(?:errata|retificac[a-z]*|adendo|republicac[a-z]*|comunicado|aviso)\b[^;]{0,12}?(?:\bde |do dia |em |\()$/
const MOVED =
  /\b(?:prorrog|alter|adia|transfer|remarc|reagend|modific|antecip|mudou|passou)[a-z]*\b[^0-9;]{0,40}\bd[eo](?: dia)? $/
const TO_ANOTHER = /^[^0-9]{0,30}\bpara\b[^0-9]{0,20}$/
const TO_BE_REPLACED = /\bonde (?:se le|consta)\b(?!.*\b(?:leia|passa))/s

const BEFORE_ZERO_HOUR =
  /\b(?:as?|ate)\s(?:0{1,2}\s?(?:h|:)\s?(?:00)?|zero hora|(?:a )?meia-?\s?noite)\s?(?:min|horas?|hs?)?\s?(?:\(?[a-z ]{0,25}\)?\s?)?d[eo](?: dia)?\s?$/
const BEFORE_EXCLUDED_DAY = /\b(?:antes d[eo]|anterior(?:mente)? ao?)(?: dia)? $/
const NOT_FROM = /\bnao\b[^;]{0,80}\ba partir d[eo](?: dia)? $/

/**
 * Says what a time stands for, by the words around it.
 * @param index of the time in its clause.
 */
export function roleOf(folded: string, clause: Clause, index: number): Role {
  const { start, end, time } = clause.times[index] as TimeToken
  const before = wordsBefore(folded, clause, index)
  if (time.kind === 'mesmo') return 'prazo'
  if (time.kind === 'periodo')
    return isTimeOfDay(time, before, folded.slice(end, end + CONTEXT)) ? 'referencia' : 'prazo'
  if (time.kind === 'dia_mes' && BEFORE_NUMBER.test(before)) return 'referencia'
  if (
    isReference(before) ||
    TO_BE_REPLACED.test(folded.slice(Math.max(clause.start, start - 3 * CONTEXT), start))
  )
    return 'referencia'
  if (BEFORE_CORRECTION.test(before)) return 'publicacao'
  const between = wordsToNextDay(folded, clause, index)
  if (between !== null && MOVED.test(before) && TO_ANOTHER.test(between)) return 'referencia'
  if (between !== null && isRange(before, between)) return 'inicio'
  const next = clause.times[index + 1]
  if (next?.time.kind === 'periodo' && TO_PERIOD.test(folded.slice(end, next.start))) return 'inicio'
  if (isOverBeforeDay(folded, clause, index)) return 'prazo'
  const isFirst = !/[a-z]/.test(folded.slice(clause.start, start))
  return (
    (isFirst ? labelBehind(folded.slice(end, Math.min(end + CONTEXT, clause.end))) : null) ??
    nearestCue(before) ??
    'prazo'
  )
}

/** The day does not count: "até 04/12, exclusive". */
const EXCLUSIVE = /^\s?[,(]?\s?exclusive\b/

/** Returns whether a deadline ends when this day begins: "até as 00h de 04/12", "antes de 04/12", "até 04/12, exclusive". */
export function isOverBeforeDay(folded: string, clause: Clause, index: number): boolean {
  const before = wordsBefore(folded, clause, index)
  const { end } = clause.times[index] as TimeToken
  if (
    BEFORE_ZERO_HOUR.test(before) ||
    NOT_FROM.test(before) ||
    EXCLUSIVE.test(folded.slice(end, end + CONTEXT))
  )
    return true
  if (!BEFORE_EXCLUDED_DAY.test(before)) return false
  return !clause.times.some(({ time }, at) => at < index && time.kind === 'periodo' && time.unit !== 'horas')
}

/** Words of a deadline, and places: "no Protocolo", "pelo e-mail". */
const OF_DEADLINE =
  /\d+[a-z]*(?: de [a-z]+ de \d+)?|\b(?:ate|dias?|datas?|prazos?|periodo|limite|final|fim|termino|encerra[a-z]*|vence[a-z]*|expira[a-z]*|ultimo|quando|hora|horas|horario|antes|antecedencia|minim[ao]|maxim[ao]|edital|impreterivelmente|somente|apenas|exclusivamente|nov[ao]|d[ao]s|ou|seja|isto|e|portanto|sendo|tendo|que|sera|seg(?:unda)?|ter(?:ca)?|qua(?:rta)?|qui(?:nta)?|sex(?:ta)?|feira|meio|partir|desde|inicio|expediente|[a-z]{1,2})\b|\b(?:n[oa]s?|pel[oa]s?|via|por|conforme|mediante|com|em|item)\s.*/gs

/** Returns whether a clause has words before a time that say what it is for, but not by an act, such as "envelopes até". */
export function hasLabel(folded: string, clause: Clause, index: number): boolean {
  const words = wordsBefore(folded, clause, index)
  return actsIn(words).length === 0 && /[a-z]{3}/.test(words.replace(OF_DEADLINE, ''))
}

function wordsToNextDay(folded: string, { times }: Clause, index: number): string | null {
  const { end } = times[index] as TimeToken
  for (let at = index + 1; at < times.length; at += 1) {
    const { start, time } = times[at] as TimeToken
    if (start > end + CONTEXT) return null
    if (time.kind !== 'periodo') return folded.slice(end, start)
  }
  return null
}

function wordsBefore(folded: string, clause: Clause, index: number): string {
  const { start } = clause.times[index] as TimeToken
  return folded.slice(Math.max(index === 0 ? clause.labelStart : clause.start, start - CONTEXT), start)
}

/** Returns whether a day behind these words is that of a law, a number or a street. */
export function isReference(before: string): boolean {
  return BEFORE_REFERENCE.test(before) || BEFORE_STREET_NAME.test(before)
}

/** Returns whether the day between these words begins a range. */
function isRange(before: string, between: string): boolean {
  const words = between.replace(TIME_OF_DAY, '').replace(PARENTHESIS, '')
  return TO.test(words) || TO_TIME.test(between) || (BEFORE_RANGE.test(before) && AND.test(words))
}

function nearestCue(before: string): Role | null {
  const words = before.replace(/^.*[0-9;]/s, '').slice(-MAX_CUE_DISTANCE)
  const cue = Array.from(words.matchAll(CUE)).at(-1)
  const role = CUES.find(([name]) => cue?.groups?.[name] !== undefined)?.[0] ?? null
  // "Antes da sessão, homologação em 18/12", "aberto o certame, impugnações em 04/12": the act is nearer.
  return cue && role === 'sessao' && actsIn(words.slice(cue.index)).length > 0 ? 'prazo' : role
}

/** Reads the role from a label behind its day, as in "05/11/2026 14h: início do prazo de impugnação". */
function labelBehind(after: string): Role | null {
  const words = after.replace(TIME_OF_DAY, '').replace(/^[^a-z]*/, '')
  if (/^inicio\b/.test(words)) return 'inicio'
  if (/^(?:publicacao|divulgacao)\b/.test(words)) return 'publicacao'
  return /^(?:abertura|sessao|disputa)\b/.test(words) ? 'sessao' : null
}

const HOURS_BEFORE =
  /^\s?\)?,?\s?(?:\(?uteis\)?\s?)?(?:antes|anterior|de antecedencia|que antece|previas|da abertura|da sessao|antecedentes)/

/** Returns whether hours are a time of day, as in "até as 18 horas", and not a period, as in "48 horas antes". */
function isTimeOfDay(time: Time, before: string, after: string): boolean {
  if (time.kind !== 'periodo' || time.unit !== 'horas') return false
  if (HOURS_BEFORE.test(after)) return false
  return (time.numbers[0] as number) < 24 || /\b(?:as|a|das)\s?$/.test(before) || /^\s?d[eo]\b/.test(after)
}
