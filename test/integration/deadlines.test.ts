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

const alert = (action_type: string) => ({ type: 'risk', severity: 'high', title: action_type, action_type })

it('gives each alert the day of its own action, with the certainty and the clause', async () => {
  const company = await startSynced([
    noticeEntry(
      1,
      { data_sessao: '2026-12-09T09:00:00' },
      {
        overview: {
          prazo_impugnacao: 'Esclarecimentos até 07/12/2026. Impugnação até 03/12/2026 ou 02/12/2026.',
        },
        alerts: ['impugnacao', 'esclarecimento', 'recurso'].map(alert),
      },
    ),
  ])
  expect(
    await company.query(
      `SELECT action_type AS action, prazo::VARCHAR AS day, certeza_prazo AS certainty FROM alertas_juridicos ORDER BY ordinal`,
    ),
  ).toEqual([
    { action: 'impugnacao', day: '2026-12-02', certainty: 'a confirmar' },
    { action: 'esclarecimento', day: '2026-12-07', certainty: 'do edital' },
    { action: 'recurso', day: null, certainty: null },
  ])
  expect(
    await company.query(
      'SELECT ato_lido, trecho_lido, trecho_esclarecimento, regra_impugnacao FROM prazos_impugnacao',
    ),
  ).toEqual([
    {
      ato_lido: 'impugnação',
      trecho_lido: 'Impugnação até 03/12/2026 ou 02/12/2026',
      trecho_esclarecimento: 'Esclarecimentos até 07/12/2026',
      regra_impugnacao: 'Edital: 02/12/2026; Edital: 03/12/2026',
    },
  ])
})

it('treats a session that has begun as over, on its day, and one without a time only when its day is over', async () => {
  const now = Date.now()
  const today = new Intl.DateTimeFormat('sv-SE', { timeZone: 'America/Sao_Paulo' }).format(now)
  const sessions = [
    new Date(now - 60_000).toISOString(),
    new Date(now + 3_600_000).toISOString(),
    today,
    undefined,
  ]
  const company = await startSynced(
    sessions.map((data_sessao, index) => noticeEntry(index + 1, { data_sessao }, { requirements: [] })),
  )
  const states = ['passada', 'futura', 'futura', 'sem data']
  expect(
    await company.query('SELECT situacao_sessao AS state FROM editais_ativos ORDER BY edital_id'),
  ).toEqual(states.map(state => ({ state })))
  expect(await company.query('SELECT count(*) AS n FROM agenda_sessoes')).toEqual([{ n: 2 }])
  expect(await company.query('SELECT count(*) AS n FROM sessoes_perdidas')).toEqual([{ n: 1 }])
  expect(await company.query('SELECT sum(sessoes)::INTEGER AS n FROM carga_de_trabalho')).toEqual([{ n: 2 }])
})
