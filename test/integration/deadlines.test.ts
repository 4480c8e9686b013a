import { expect, it } from 'vitest'
import { noticeEntry } from '#test/support/notices.ts'
import { startSynced } from '#test/support/synced.ts'
import { readWordings, type Wording } from '#test/support/wordings.ts'

type Shown = {
  readonly contest: string | null
  readonly questions: string | null
  readonly certainty: string | null
  readonly rule: string | null
}

/** Days that are too early cost a chance; more than this share would be a reader that guesses. */
const MAX_EARLY_SHARE = 0.02

it('reads the last day of every wording in the corpus: none too late, and nearly none too early', async () => {
  const wordings = readWordings()
  const company = await startSynced(wordings.map(entryOf))
  const rows = await company.query<Shown>(
    `SELECT ultimo_dia_impugnacao::VARCHAR AS contest, ultimo_dia_esclarecimento::VARCHAR AS questions,
       certeza_impugnacao AS certainty, regra_impugnacao AS rule
     FROM prazos_impugnacao ORDER BY edital_id`,
  )
  const judged = wordings.map((wording, index) => ({ wording, shown: rows[index] as Shown }))
  const late = judged.filter(({ wording, shown }) => isLate(wording.contest, shown.contest))
  const lateQuestions = judged.filter(
    ({ wording, shown }) => wording.questions !== undefined && isLate(wording.questions, shown.questions),
  )
  const early = judged.filter(({ wording, shown }) => isEarly(wording.contest, shown.contest))
  const otherQuestions = judged.filter(
    ({ wording, shown }) => wording.questions !== undefined && isEarly(wording.questions, shown.questions),
  )
  const unsure = judged.filter(
    ({ wording, shown }) => wording.certainty !== undefined && wording.certainty !== shown.certainty,
  )
  expect(late.map(described), 'too late').toEqual([])
  expect(lateQuestions.map(described), 'too late for questions').toEqual([])
  expect(unsure.map(described), 'of another certainty').toEqual([])
  expect(wordings.length).toBeGreaterThanOrEqual(150)
  expect(early.length, early.map(described).join('\n')).toBeLessThanOrEqual(MAX_EARLY_SHARE * wordings.length)
  expect(otherQuestions.length, otherQuestions.map(described).join('\n')).toBeLessThanOrEqual(
    MAX_EARLY_SHARE * wordings.length,
  )
})

function entryOf({ text, session, notice }: Wording, index: number) {
  const { lei: lei_aplicavel, ...fields } = notice
  return noticeEntry(
    index + 1,
    { data_sessao: session, ...fields },
    { overview: { prazo_impugnacao: text, lei_aplicavel } },
  )
}

/** Without a day, nobody is late; a day where there is none is only early. */
function isLate(right: string | null, shown: string | null): boolean {
  return right !== null && (shown === null || shown > right)
}

function isEarly(right: string | null, shown: string | null): boolean {
  return shown !== null && (right === null || shown < right)
}

function described({ wording, shown }: { wording: Wording; shown: Shown }): string {
  const { line, text, contest, questions, certainty } = wording
  return `line ${line}: ${JSON.stringify(text.slice(0, 90))} ${contest} ${questions} ${certainty}, but shown ${JSON.stringify(shown)}`
}
