import { expect, it } from 'vitest'
import { openMarts } from '#test/support/marts.ts'
import { noticeEntry } from '#test/support/notices.ts'
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
  const marts = await openMarts(wordings.map(entryOf))
  const rows = await marts.query<Shown>(
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
  const marts = await openMarts([
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
    await marts.query(
      `SELECT action_type AS action, prazo::VARCHAR AS day, certeza_prazo AS certainty FROM alertas_juridicos ORDER BY ordinal`,
    ),
  ).toEqual([
    { action: 'impugnacao', day: '2026-12-02', certainty: 'a confirmar' },
    { action: 'esclarecimento', day: '2026-12-07', certainty: 'do edital' },
    { action: 'recurso', day: null, certainty: null },
  ])
  expect(
    await marts.query(
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
  const due = {
    overview: { prazo_impugnacao: 'Impugnação até a abertura da sessão' },
    alerts: [{ type: 'risk', severity: 'high', title: 'Prazo', action_type: 'impugnacao' }],
  }
  const marts = await openMarts(
    sessions.map((data_sessao, index) =>
      noticeEntry(index + 1, { data_sessao }, { requirements: [], ...due }),
    ),
  )
  // The deadline ends when the session begins.
  const open =
    'SELECT dias_ate_prazo >= 0 AS open FROM alertas_juridicos WHERE prazo IS NOT NULL ORDER BY edital_id'
  expect(await marts.query(open)).toEqual([{ open: false }, { open: true }, { open: true }])
  expect(await marts.query('FROM edital_resumo WHERE dias_ate_impugnacao >= 0')).toHaveLength(2)
  const states = ['passada', 'futura', 'futura', 'sem data']
  expect(await marts.query('SELECT situacao_sessao AS state FROM editais_ativos ORDER BY edital_id')).toEqual(
    states.map(state => ({ state })),
  )
  expect(await marts.query('SELECT count(*) AS n FROM agenda_sessoes')).toEqual([{ n: 2 }])
  expect(await marts.query('SELECT count(*) AS n FROM sessoes_perdidas')).toEqual([{ n: 1 }])
  expect(await marts.query('SELECT sum(sessoes)::INTEGER AS n FROM carga_de_trabalho')).toEqual([{ n: 2 }])
})

it('the last day to contest is the third business day before the session, without weekends and holidays', async () => {
  const days = [
    // November 20th, here a Friday, is a holiday since 2024.
    ['2026-11-24', '2026-11-18'],
    ['2023-11-24', '2023-11-21'],
    // A Thursday; a Monday; a Sunday, which counts like the Monday after it.
    ['2026-11-19', '2026-11-16'],
    ['2026-11-16', '2026-11-11'],
    ['2026-11-15', '2026-11-11'],
    // Good Friday of 2026 is April 3rd, Tiradentes the 21st.
    ['2026-04-07', '2026-04-01'],
    ['2026-04-22', '2026-04-16'],
    // Across the turn of the year: New Year's Day is a Friday, and offices may be closed on the day before it.
    ['2027-01-05', '2026-12-29'],
  ]
  const marts = await openMarts(
    days.map(([day], index) => noticeEntry(index + 1, { data_sessao: `${day}T09:00:00` })),
  )
  expect(
    await marts.query(
      `SELECT data_sessao_dia::VARCHAR AS day, ultimo_dia_impugnacao::VARCHAR AS last
       FROM edital_resumo ORDER BY edital_id`,
    ),
  ).toEqual(days.map(([day, last]) => ({ day, last })))
  // Good Fridays from calendars.
  expect(
    await marts.query(
      `SELECT dia::VARCHAR AS dia FROM calendario WHERE feriado = 'Paixão de Cristo' AND year(dia) BETWEEN 2019 AND 2030 ORDER BY dia`,
    ),
  ).toEqual(
    [
      ...['2019-04-19', '2020-04-10', '2021-04-02', '2022-04-15', '2023-04-07', '2024-03-29'],
      ...['2025-04-18', '2026-04-03', '2027-03-26', '2028-04-14', '2029-03-30', '2030-04-19'],
    ].map(dia => ({ dia })),
  )
})

it('the last day to contest is what the notice states, else by the law that it names, and the rule is shown', async () => {
  // The session is on a Tuesday; the Friday before it is a holiday.
  const session = '2026-11-24T09:00:00'
  const presumed = 'Lei 14.133/2021, art. 164 (presumida): 3 dias úteis'
  const cases: readonly (readonly [text: string | null, law: string | null, last: string, rule: string])[] = [
    // What contradicts the law that the notice names is shown with it, and the earlier day counts.
    [
      '3 dias úteis',
      'Lei 13.303/2016',
      '2026-11-16',
      'Lei 13.303/2016, art. 87: 5 dias úteis; Edital: 3 dias úteis',
    ],
    [
      'até 5 dias úteis',
      'Lei 14.133/2021',
      '2026-11-16',
      'Edital: 5 dias úteis; Lei 14.133/2021, art. 164: 3 dias úteis',
    ],
    ['05\u00a0(cinco)  DIAS ÚTEIS', null, '2026-11-16', 'Edital: 5 dias úteis'],
    ['Até o 3º (terceiro) dia útil anterior', null, '2026-11-18', 'Edital: 3 dias úteis'],
    ['um dia útil', null, '2026-11-23', 'Edital: 1 dia útil'],
    ['5 dias', null, '2026-11-16', 'Edital: 5 dias, contados como úteis; Edital: 5 dias corridos'],
    ['5 dias corridos', null, '2026-11-19', 'Edital: 5 dias corridos'],
    ['48 horas antes da sessão', null, '2026-11-22', 'Edital: 48 horas'],
    ['até as 18h do dia 17/11/2026', null, '2026-11-17', 'Edital: 17/11/2026'],
    ['de 02.11.2026 a 17.11.2026', null, '2026-11-17', 'Edital: 17/11/2026'],
    ['17/11/26', null, '2026-11-17', 'Edital: 17/11/2026'],
    ['Até 1º de novembro de 2026', null, '2026-11-01', 'Edital: 01/11/2026'],
    ['2026-11-17T23:59', null, '2026-11-17', 'Edital: 17/11/2026'],
    // The day of the session, of the publication, and one that does not exist.
    ['3 dias úteis antes de 24/11/2026', null, '2026-11-18', 'Edital: 3 dias úteis'],
    ['publicado em 01/10/2026; 5 dias úteis', null, '2026-11-16', 'Edital: 5 dias úteis'],
    ['31/02/2026', null, '2026-11-18', presumed],
    // The day of the publication is unknown.
    [
      '10 dias úteis após a publicação',
      'Lei 8.666/93',
      '2026-11-19',
      'Lei 8.666/1993, art. 41: 2 dias úteis',
    ],
    ['Não consta', 'Lei nº 13.303, de 2016', '2026-11-16', 'Lei 13.303/2016, art. 87: 5 dias úteis'],
    [null, 'Lei 14.133/2021, Art. 28, I', '2026-11-18', 'Lei 14.133/2021, art. 164: 3 dias úteis'],
    [null, 'Lei 10.520/2002', '2026-11-18', 'Decreto 10.024/2019, art. 24: 3 dias úteis'],
    [null, 'Lei 14.981/2024', '2026-11-18', presumed],
    ['999 dias úteis', null, '2026-11-18', presumed],
    ['5 d.u.', null, '2026-11-16', 'Edital: 5 dias úteis'],
    ['05 (cinco) DU antes da abertura', null, '2026-11-16', 'Edital: 5 dias úteis'],
    // The law that this text names, if it is not named elsewhere.
    ['Conforme art. 87 da Lei 13.303/2016', null, '2026-11-16', 'Lei 13.303/2016, art. 87: 5 dias úteis'],
    ['Art. 164 da Lei 14133', 'Lei Federal', '2026-11-18', 'Lei 14.133/2021, art. 164: 3 dias úteis'],
    [
      'Art. 87 da Lei 13.303/2016',
      'Lei 14.133/2021',
      '2026-11-16',
      'Lei 13.303/2016, art. 87: 5 dias úteis; Lei 14.133/2021, art. 164: 3 dias úteis',
    ],
  ]
  const alerts = [{ type: 'risk', severity: 'high', title: 'Prazo', action_type: 'impugnacao' }]
  const marts = await openMarts(
    cases.map(([prazo_impugnacao, lei_aplicavel], index) =>
      noticeEntry(
        index + 1,
        { data_sessao: session },
        { overview: { prazo_impugnacao, lei_aplicavel }, alerts },
      ),
    ),
  )
  const expected = cases.map(([, , last, rule]) => ({ last, rule }))
  expect(
    await marts.query(
      `SELECT ultimo_dia_impugnacao::VARCHAR AS last, regra_impugnacao AS rule FROM edital_resumo ORDER BY edital_id`,
    ),
  ).toEqual(expected)
  expect(
    await marts.query(
      'SELECT prazo::VARCHAR AS last, regra_prazo AS rule FROM alertas_juridicos ORDER BY edital_id',
    ),
  ).toEqual(expected)
})
