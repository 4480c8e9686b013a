import { expect, test } from 'vitest'
import { type Found, openMarts } from '#test/support/marts.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'

const DAY_MS = 24 * 3600 * 1000

test('moves between phases and changes of fields are shown as observed', async () => {
  const day = (n: number) => new Date(Date.now() - (30 - n) * DAY_MS)
  const ready = noticeEntry(2, { status: 'ready' })
  const marts = await openMarts()
  const seen: Record<string, unknown> = { status: 'screening', valor_estimado: 10 }
  const runWith = async (n: number, change: Record<string, unknown>, others: Found = {}) => {
    Object.assign(seen, change, { updated_at: day(n).toISOString() })
    await marts.run(day(n), { ...others, shown: [noticeEntry(1, seen), ...(others.shown ?? [])] })
  }
  await runWith(0, {}, { shown: [ready] })
  await runWith(4, { status: 'analysis' })
  await runWith(5, { valor_estimado: 12.5, data_sessao: '2026-12-01T09:00:00' })
  await runWith(10, { status: 'discarded', discard_reason: 'Longe' }, { gone: [ready] })

  expect(
    await marts.query(
      'SELECT edital_id, de_fase, para_fase, round(dias_na_fase, 2) AS dias FROM transicoes_de_fase ORDER BY observado_em',
    ),
  ).toEqual([
    { edital_id: idOf(1), de_fase: 'Triagem', para_fase: 'Análise', dias: 4 },
    { edital_id: idOf(1), de_fase: 'Análise', para_fase: 'Descartado', dias: 6 },
  ])
  expect(
    await marts.query(
      `SELECT fase, concluidas, em_curso, concluidas_censuradas AS censuradas, round(dias_mediana, 2) AS mediana
       FROM tempo_por_fase`,
    ),
  ).toEqual([
    // Under way at the first sync: its days are not known.
    { fase: 'Triagem', concluidas: 1, em_curso: 0, censuradas: 1, mediana: null },
    { fase: 'Análise', concluidas: 1, em_curso: 0, censuradas: 0, mediana: 6 },
    // Deleted from the API.
    { fase: 'Pronto', concluidas: 1, em_curso: 0, censuradas: 1, mediana: null },
    { fase: 'Descartado', concluidas: 0, em_curso: 1, censuradas: 0, mediana: null },
  ])
  expect(await marts.query('SELECT campo, de, para FROM mudancas ORDER BY observado_em, campo')).toEqual([
    { campo: 'status', de: 'screening', para: 'analysis' },
    { campo: 'data_sessao', de: null, para: '2026-12-01 09:00:00' },
    { campo: 'valor_estimado', de: '10.0', para: '12.5' },
    { campo: 'discard_reason', de: null, para: 'Longe' },
    { campo: 'status', de: 'analysis', para: 'discarded' },
  ])
  expect(
    await marts.query(
      `SELECT campo_rotulo AS campo, de_rotulo AS de, para_rotulo AS para FROM mudancas
       WHERE campo IN ('status', 'data_sessao', 'valor_estimado') ORDER BY observado_em, campo`,
    ),
  ).toEqual([
    { campo: 'Fase', de: 'Triagem', para: 'Análise' },
    { campo: 'Sessão', de: null, para: '01/12/2026 09:00' },
    { campo: 'Valor estimado', de: 'R$ 10,00', para: 'R$ 12,50' },
    { campo: 'Fase', de: 'Análise', para: 'Descartado' },
  ])
  expect(await marts.query('FROM frescor')).toMatchObject([
    { ultima_execucao_status: 'ok', editais_ativos: 1, pendentes: 0, em_quarentena: 0, desvios: 0 },
  ])
})

test('an object that changed is shown from where it did, however long it is, in both texts', async () => {
  const day = (n: number) => new Date(Date.now() - (9 - n) * DAY_MS)
  const marts = await openMarts()
  const start =
    'Registro de preços para futura e eventual aquisição de gêneros, conforme o edital e os seus anexos'
  const texts = [`${start}, lote 1`, `${start}, lotes 1 e 2`, 'Outro objeto', null, `${start}, lote 1`]
  for (const [index, objeto] of texts.entries())
    await marts.run(day(index), { shown: [noticeEntry(1, { objeto, updated_at: day(index).toISOString() })] })
  expect(
    await marts.query(
      `SELECT de, para FROM novidades WHERE mudanca = 'Objeto alterado' ORDER BY observado_em`,
    ),
  ).toEqual([
    { de: '… seus anexos, lote 1', para: '… seus anexos, lotes 1 e 2' },
    { de: `${start}, lotes 1 e 2`, para: 'Outro objeto' },
    { de: 'Outro objeto', para: 'não informado' },
    { de: 'não informado', para: `${start}, lote 1` },
  ])
})

test('time away is time in no phase, and a stay that was under way at the first sync is in no median', async () => {
  const at = (day: number) => new Date(Date.now() - (30 - day) * DAY_MS)
  const notice = (number: number, status: string, updated: number, created = -150) =>
    noticeEntry(number, {
      status,
      created_at: at(created).toISOString(),
      updated_at: at(updated).toISOString(),
    })
  const away = notice(2, 'analysis', -150)
  const marts = await openMarts()
  await marts.run(at(0), { shown: [notice(1, 'analysis', -150), away] })
  await marts.run(at(2), { shown: [notice(1, 'pricing', 2), notice(3, 'analysis', 1, 1)], gone: [away] })
  // Returns unchanged.
  await marts.run(at(8), { shown: [away, notice(3, 'pricing', 8, 1)] })
  await marts.run(at(9), { gone: [notice(1, 'pricing', 2)] })
  await marts.run(at(20), { shown: [notice(1, 'ready', 20)] })
  expect(
    await marts.query(
      `SELECT edital_id, status, round(dias, 2) AS dias, em_curso, censurada FROM passagens_por_fase
       ORDER BY edital_id, entrou_em`,
    ),
  ).toMatchObject([
    { edital_id: idOf(1), status: 'analysis', dias: 2, em_curso: false, censurada: true },
    { edital_id: idOf(1), status: 'pricing', dias: 7, em_curso: false, censurada: false },
    { edital_id: idOf(1), status: 'ready', dias: 10, em_curso: true, censurada: false },
    { edital_id: idOf(2), status: 'analysis', dias: 2, em_curso: false, censurada: true },
    { edital_id: idOf(2), status: 'analysis', dias: 22, em_curso: true, censurada: false },
    { edital_id: idOf(3), status: 'analysis', dias: 6, em_curso: false, censurada: false },
    { edital_id: idOf(3), status: 'pricing', dias: 22, em_curso: true, censurada: false },
  ])
  expect(
    await marts.query(
      `SELECT status, concluidas, concluidas_censuradas AS censuradas, round(dias_mediana, 2) AS mediana,
         em_curso_censuradas, round(em_curso_dias_mediana, 2) AS em_curso_mediana FROM tempo_por_fase`,
    ),
  ).toEqual([
    {
      status: 'analysis',
      concluidas: 3,
      censuradas: 2,
      mediana: 6,
      em_curso_censuradas: 0,
      em_curso_mediana: 22,
    },
    {
      status: 'pricing',
      concluidas: 1,
      censuradas: 0,
      mediana: 7,
      em_curso_censuradas: 0,
      em_curso_mediana: 22,
    },
    {
      status: 'ready',
      concluidas: 0,
      censuradas: 0,
      mediana: null,
      em_curso_censuradas: 0,
      em_curso_mediana: 10,
    },
  ])
  // A return to the same phase is no move.
  expect(
    await marts.query(
      'SELECT edital_id, de_status, para_status FROM transicoes_de_fase ORDER BY observado_em, 1',
    ),
  ).toEqual([
    { edital_id: idOf(1), de_status: 'analysis', para_status: 'pricing' },
    { edital_id: idOf(3), de_status: 'analysis', para_status: 'pricing' },
    { edital_id: idOf(1), de_status: 'pricing', para_status: 'ready' },
  ])
})

test('requirements and alerts are compared with the analysis before, by title in any spelling', async () => {
  const marts = await openMarts()
  const start = Date.now() - 9 * 3_600_000
  // The last two are of one moment, as after a clock that was set back.
  const moment = (index: number) => new Date(start + Math.min(index, 7) * 3_600_000)
  /** From `title: state` each; what is empty is missing. An opportunity begins with `+`. */
  const listOf = (state: 'status' | 'severity', ...texts: string[]) =>
    texts.map(text => {
      const [title = '', value] = text.split(': ')
      const type = title.startsWith('+') && { type: 'opportunity' }
      return { ...type, ...(title && { title }), ...(value && { [state]: value }) }
    })
  const analysis = (requirements: string[], alerts: string[] = []) => ({
    requirements: listOf('status', ...requirements),
    alerts: listOf('severity', ...alerts),
  })
  const analyses = [
    // Only screened: what the first list has is no change.
    analysis([]),
    analysis(['CND Federal: red', 'Atestado: green', 'Atestado: red', ': green']),
    analysis(
      ['CND\u00a0 federal : green', 'Atestado: yellow', 'Atestado: green', ': green'],
      ['Marca: low', '+ME: low'],
    ),
    analysis(['cnd federal: azul', 'Atestado: ', 'Balanço: red'], ['marca: critical', '+ME: high']),
    analysis([]),
    analysis(['Balanço: red', 'Balanço: green', 'Balanço: yellow']),
    analysis(['Balanço: green', 'Balanço: yellow', 'Balanço: red']),
    analysis(['Balanço: green', 'Balanço: red']),
    analysis(['Balanço: yellow']),
  ]
  for (const [index, analysis] of analyses.entries())
    await marts.run(moment(index), {
      shown: [noticeEntry(1, { updated_at: moment(index).toISOString() }, analysis)],
    })
  const seen = await marts.query(
    'SELECT parte, titulo, de, para, sentido, observado_em FROM mudancas_analise ORDER BY observado_em, parte, titulo, de, para',
  )
  const at = (index: number, ...rows: (string | null)[][]) =>
    rows.map(([parte, titulo, de, para, sentido]) => ({
      ...{ parte, titulo, de, para, sentido },
      observado_em: moment(index),
    }))
  expect(seen).toEqual([
    ...at(
      2,
      ['Requisito', 'Atestado', 'vermelho', 'amarelo', 'melhor'],
      ['Requisito', 'CND federal', 'vermelho', 'verde', 'melhor'],
    ),
    ...at(
      3,
      ['Alerta', 'marca', 'baixa', 'crítica', 'pior'],
      // It is not a risk, whatever its severity.
      ['Oportunidade', '+ME', 'baixa', 'alta', 'outro'],
      ['Requisito', 'Atestado', 'amarelo', 'não avaliado', 'outro'],
      ['Requisito', 'Atestado', 'verde', null, 'retirado'],
      ['Requisito', 'Balanço', null, 'vermelho', 'novo'],
      ['Requisito', 'cnd federal', 'verde', 'azul', 'outro'],
      ['Requisito', 'sem título', 'verde', null, 'retirado'],
    ),
    ...at(
      4,
      ['Alerta', 'marca', 'crítica', null, 'retirado'],
      ['Oportunidade', '+ME', 'alta', null, 'retirado'],
      ['Requisito', 'Atestado', 'não avaliado', null, 'retirado'],
      ['Requisito', 'Balanço', 'vermelho', null, 'retirado'],
      ['Requisito', 'cnd federal', 'azul', null, 'retirado'],
    ),
    ...at(
      5,
      ['Requisito', 'Balanço', null, 'amarelo', 'novo'],
      ['Requisito', 'Balanço', null, 'verde', 'novo'],
      ['Requisito', 'Balanço', null, 'vermelho', 'novo'],
    ),
    ...at(
      7,
      ['Requisito', 'Balanço', 'amarelo', null, 'retirado'],
      ['Requisito', 'Balanço', 'verde', null, 'retirado'],
      ['Requisito', 'Balanço', 'vermelho', 'amarelo', 'melhor'],
    ),
  ])
})
