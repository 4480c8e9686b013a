import type { Entry } from '#src/sandbox/world.ts'
import { noticeEntry } from '../notices.ts'
import { localDay, sessionContestedUntil } from './calendar.ts'

type Fields = Readonly<Record<string, unknown>>

/** The state of most corner cases; tests also query cards for this state alone. */
export const STATE = 'RN'
/** Another state, so that a filter by the first one always leaves something out. */
const ELSEWHERE = { uf: 'RR' }
/** Days to a session that has alerts. */
export const MONTH_AHEAD = 30
const CNPJ = '08241747000143'
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

/** Makes a notice in progress, with these fields and analysis; `number` makes it unique. */
type Make = (number: number, fields?: Fields, analysis?: Fields) => Entry

/**
 * Corner cases that generated notices never have, as served to the run with this index, 0 to 2. All exist from the
 * first run on, except those about changes.
 * @param now start of the days ahead.
 */
export function cornersOf(run: number, now: Date): Entry[] {
  const make: Make = (number, fields = {}, analysis = {}) =>
    noticeEntry(
      number,
      {
        pncp_id: `${CNPJ}-2026-${number}`,
        orgao: 'MUNICIPIO DE NATAL',
        uf: STATE,
        numero: `${number}`,
        modalidade: 'Pregão - Eletrônico',
        created_at: new Date(now.getTime() - 30 * DAY_MS - number * HOUR_MS).toISOString(),
        updated_at: new Date(now.getTime() - 20 * DAY_MS + number * HOUR_MS).toISOString(),
        ...fields,
      },
      { requirements: [], alerts: [], pricing: null, ...analysis },
    )
  const ahead = (days: number) => localDay(now).add({ days }).toString()
  return [
    ...values(make),
    ...places(make, ahead),
    ...sessions(make, ahead),
    ...demands(make, ahead),
    ...alerts(make, ahead, sessionContestedUntil(localDay(now))?.toString()),
    ...contests(make, ahead),
    ...buyers(make, ahead),
    ...reasons(make),
    ...moves(make, run, now),
    ...broken(make, run),
    ...strangers(make, ahead, run),
    ...decided(make, ahead, run),
    ...priced(make, ahead),
    ...republished(make, ahead, run),
  ]
}

/** The day this many days ahead, in the API's format. */
type Ahead = (days: number) => string

function values(make: Make): Entry[] {
  const secret = [0, undefined, null]
  const suspect = [0.01, -5, 99_999_999, 99_999_999.99, 9_999_999_999_999.99, 1e11, 3e12]
  // The last two have the same value.
  const believable = [1, 999_999.99, 99_999_998.99, 4_000_000, 4_000_000]
  return [...secret, ...suspect, ...believable].map((valor_estimado, index) =>
    make(100 + index, { valor_estimado, status: 'pricing' }),
  )
}

function places(make: Make, ahead: Ahead): Entry[] {
  return [
    make(120, { uf: undefined, modalidade: undefined }),
    make(121, { uf: ' ', modalidade: '  ', valor_estimado: 700 }),
    // The same state, however it is written.
    ...[` ${STATE} `, 'rn', `\u00a0${STATE}\t`].map((uf, index) =>
      make(125 + index, { uf, data_sessao: `${ahead(3)}T10:00:00`, valor_estimado: 900 }),
    ),
    // With the same value.
    ...['XA', 'XB', 'XC'].map((uf, index) =>
      make(122 + index, { uf, modalidade: uf, valor_estimado: 12_345 }),
    ),
  ]
}

function sessions(make: Make, ahead: Ahead): Entry[] {
  const times = [
    // Today at any time: at midnight (a day without a time), and in the last minute.
    ahead(0),
    `${ahead(0)}T23:59:00`,
    // Over, unless the day has just begun.
    `${ahead(0)}T00:01:00`,
    // Late in the evening: in UTC, the next day.
    `${ahead(4)}T02:30:00Z`,
    // With the same time and buyer.
    `${ahead(6)}T09:00:00-03:00`,
    `${ahead(6)}T09:00`,
    // At the bounds of a week and of the list, and beyond them.
    ...[-1, 6, 7, 29, 30].map(days => `${ahead(days)}T10:00:00`),
    // Typing errors.
    ...['0206-05-04T09:00:00', '2206-05-04T09:00:00'],
    undefined,
  ]
  return [
    ...times.map((data_sessao, index) => {
      const status = index % 2 === 0 ? 'ready' : 'analysis'
      const verdict = index % 4 === 0 ? {} : { recommendation: 'cautela' }
      return make(140 + index, { data_sessao, status, participation_confirmed: index % 3 === 0 }, { verdict })
    }),
    // At the same time as two of these; sorted first by its buyer's name, last by its id.
    make(155, { data_sessao: `${ahead(6)}T09:00:00`, orgao: 'AUTARQUIA', ...ELSEWHERE }),
  ]
}

function demands(make: Make, ahead: Ahead): Entry[] {
  const demand = (status: string | undefined, title: string | undefined, category?: string) => ({
    status,
    title,
    category,
    required: 'Exigido.',
    current: 'Não há.',
    ai_notes: 'Ver.',
  })
  const odd = {
    requirements: [
      demand('yellow', 'Certidão de Natal', 'outros'),
      demand('red', ' Certidão de Natal ', 'outros'),
      demand(undefined, 'Sem cor', 'outros'),
      demand('red', undefined),
      demand('red', '  ', 'amostras'),
    ],
  }
  return [
    make(160, { data_sessao: ahead(-3) }, odd),
    make(164, { data_sessao: ahead(2 * MONTH_AHEAD) }, odd),
    make(
      161,
      { data_sessao: undefined },
      {
        // Twice in one notice is not a pattern.
        requirements: [
          ...[1, 2].map(() => demand('red', 'Só aqui', 'amostras')),
          demand('red', 'Certidão de Natal', 'outros'),
          demand('green', 'Certidão de Natal', 'outros'),
        ],
      },
    ),
    make(162, ELSEWHERE, { requirements: [demand('red', 'Certidão de Roraima', 'outros')] }),
    make(163, { status: 'discarded' }, { requirements: [demand('red', 'Certidão de Natal', 'outros')] }),
  ]
}

function alerts(make: Make, ahead: Ahead, endingToday: string | undefined): Entry[] {
  const alert = (type?: string, severity?: string, action_type?: string) => ({
    type,
    severity,
    action_type,
    title: `${type} ${severity}`,
    description: 'Porque sim.',
  })
  const all = [
    alert('opportunity', 'critical', 'none'),
    alert('opportunity', 'high', 'impugnacao'),
    alert('info', 'critical', 'esclarecimento'),
    alert(undefined, 'high', 'recurso'),
    alert('risk', undefined, undefined),
    alert('risk', 'critical', 'impugnacao'),
    alert('risk', 'low', 'contrarrazao'),
  ]
  // The last day to contest is future, past, unknown, today if possible, and that of MONTH_AHEAD.
  const sessions = [...[8, 5, 1, -5].map(ahead), undefined, endingToday, ahead(MONTH_AHEAD)]
  return [
    ...sessions.map((data_sessao, index) => make(180 + index, { data_sessao }, { alerts: all })),
    make(190, { data_sessao: ahead(8), ...ELSEWHERE }, { alerts: all }),
    ...[5, 8].map(days => make(190 + days, { data_sessao: ahead(days) }, { alerts: all.slice(0, 2) })),
  ]
}

/** Deadlines as notices state them, and laws. */
function contests(make: Make, ahead: Ahead): Entry[] {
  const [near, soon, later, day] = [3, 7, 10, 12].map(days => ahead(days).split('-').reverse().join('/'))
  const stated = [
    ...['até 5 dias úteis', '03 (três) dias úteis antes da abertura', 'Até o 2º (segundo) dia útil anterior'],
    ...['quinto dia útil', 'Um dia útil', '3 dias (úteis)', '4 dias', 'dois dias corridos', '48 horas antes'],
    ...[`até as 18h do dia ${soon}`, `de ${soon} a ${later}`, `3 dias úteis antes de ${day}`, `${day}`],
    ...[`até ${later} (3 dias úteis antes da sessão)`, '10/10/2020, 3 dias úteis', '31/02/2026', ahead(9)],
    ...[
      '5 dias úteis após a publicação',
      '99 dias úteis',
      'Não informado',
      '',
      'art. 164, § 1º',
      '24h do dia 30',
    ],
  ].map(prazo_impugnacao => ({ prazo_impugnacao, lei_aplicavel: 'Lei nº 14.133, de 2021' }))
  const laws = [
    'Lei 13.303/2016, Art. 32, IV',
    'Lei 10.520/2002',
    'Lei nº 8.666/93',
    'Lei 14.981/2024',
    undefined,
  ]
  const named = ['Conforme art. 87 da Lei 13.303/2016', '5 d.u.', '2 DU antes da abertura'].map(
    prazo_impugnacao => ({ prazo_impugnacao }),
  )
  const alerts = [{ type: 'risk', severity: 'high', title: 'Prazo', action_type: 'impugnacao' }]
  return [
    ...[...stated, ...laws.map(lei_aplicavel => ({ lei_aplicavel })), ...named].map((overview, index) =>
      make(300 + index, { data_sessao: `${ahead(12)}T10:00:00` }, { overview, alerts }),
    ),
    // Without a session, a date is still a deadline.
    make(340, { data_sessao: undefined }, { overview: { prazo_impugnacao: `Até ${near}` }, alerts }),
    make(341, { data_sessao: undefined }, { overview: { prazo_impugnacao: '3 dias úteis' }, alerts }),
    // An hour of the session's day, and one of a day without a time.
    make(
      342,
      { data_sessao: ahead(5) },
      { overview: { prazo_impugnacao: '24 (vinte e quatro) horas antes' }, alerts },
    ),
  ]
}

function buyers(make: Make, ahead: Ahead): Entry[] {
  const risk = (pricing: string | null, report: string | null) => ({
    pricing: pricing === null ? null : { risco_pagamento: pricing },
    orgao_report: report === null ? null : { payment_risk: report, status: 'concluido' },
  })
  const grave = (count: number) => ({
    alerts: Array.from({ length: count }, () => ({ type: 'risk', severity: 'high', title: 'Grave' })),
  })
  const of = (digit: number, number: number) => ({ pncp_id: `${String(digit).repeat(14)}-2026-${number}` })
  const large = (value: number) => ({ valor_estimado: value * 1e6, ...ELSEWHERE })
  return [
    // Without a CNPJ: two with the same name are one buyer; those without a name are one buyer, too.
    make(
      200,
      { pncp_id: 'processo 200', orgao: 'CONSÓRCIO', ...large(9) },
      { ...risk('alto', null), ...grave(7) },
    ),
    make(201, { pncp_id: 'processo 201', orgao: 'CONSÓRCIO', ...large(8), data_sessao: ahead(9) }),
    make(
      202,
      { pncp_id: 'processo 202', orgao: undefined, uf: undefined },
      { ...risk('critico', ''), ...grave(6) },
    ),
    make(214, { pncp_id: 'processo 214', orgao: undefined, uf: undefined }, grave(2)),
    // Two with the same name, distinguished by their CNPJ.
    make(203, { ...of(1, 203), orgao: 'CÂMARA', ...large(7) }, { ...risk('', 'baixo'), ...grave(5) }),
    make(
      204,
      { ...of(2, 204), orgao: 'CÂMARA', ...large(6), uf: 'AC' },
      { ...risk('medio', null), ...grave(4) },
    ),
    // One that had another name before, and has none in its latest notice.
    make(205, { ...of(3, 205), orgao: 'ANTIGA', ...large(5) }, risk('alto', 'desconhecido')),
    make(206, { ...of(3, 206), orgao: 'NOVA', ...large(4), uf: 'AP' }, risk('critico', null)),
    make(207, { ...of(3, 207), orgao: undefined, uf: undefined, status: 'discarded' }),
    // One with a risk that was known once, and one with a risk that was never known.
    make(215, { ...of(8, 215), ...large(1.5) }, risk('alto', null)),
    make(216, { ...of(8, 216), ...large(1.25) }, risk('', 'desconhecido')),
    // Unknown to the report, known to the pricing; and known to both, which differ.
    make(217, { ...of(9, 217), ...large(2.5) }, risk('alto', 'desconhecido')),
    make(218, { pncp_id: `${'12'.repeat(7)}-2026-218`, ...large(2.25) }, risk('baixo', 'critico')),
    make(208, { ...of(4, 208), ...large(3) }, risk('', 'desconhecido')),
    // Buyers that moved: into STATE and out of it.
    make(209, { ...of(6, 209), uf: 'CE', orgao: 'MUDADA' }, risk('medio', null)),
    make(210, { ...of(6, 210), orgao: 'MUDADA' }),
    make(211, { ...of(7, 211), orgao: 'PARTIDA' }, risk('medio', null)),
    make(212, { ...of(7, 212), uf: 'CE', orgao: 'PARTIDA' }),
    // A buyer without notices in progress.
    make(213, { ...of(5, 213), ...large(2), status: 'expired' }, risk('baixo', 'baixo')),
  ]
}

function reasons(make: Make): Entry[] {
  const given = ['Longe demais', ' Longe demais ', 'Longe demais', '', undefined, 'Caro', 'Pequeno', 'Tarde']
  return [
    ...given.map((discard_reason, index) => make(220 + index, { discard_reason, status: 'discarded' })),
    // In another phase: it does not count.
    make(230, { discard_reason: 'Caro', status: 'screening' }),
  ]
}

/** Phases of these notices in each run; null if the notice is absent. */
function moves(make: Make, run: number, now: Date): Entry[] {
  const stories = [
    ['screening', 'analysis', 'pricing'],
    // There and back.
    ['analysis', 'screening', 'analysis'],
    ['ready', 'ready', null],
    ['ready', null, null],
    // Gone for a while.
    ['pricing', null, 'pricing'],
    [null, 'suspended', 'suspended'],
    ['suspended', 'suspended', 'expired'],
    [null, null, 'screening'],
    // Followed before the first run, but seen only later; and followed from then on.
    [null, 'ready', 'discarded'],
    [null, 'pricing', 'ready'],
    [null, null, 'ready'],
  ]
  // By index, if not since before the first run: each is older than the run that first sees it.
  const followed: Readonly<Record<number, Fields>> = {
    9: { created_at: new Date(now.getTime() - 100 * HOUR_MS).toISOString() },
    10: { created_at: new Date(now.getTime() - 10 * HOUR_MS).toISOString() },
  }
  return stories.flatMap((phases, index) => {
    const status = phases[run]
    return status ? [make(240 + index, { status, ...movedAt(run), ...followed[index] })] : []
  })
}

/** An `updated_at` that differs in each run. */
function movedAt(run: number): Fields {
  return { updated_at: new Date(Date.UTC(2026, 0, 1 + run)).toISOString() }
}

/** Records that are unusable in some of the runs. */
function broken(make: Make, run: number): Entry[] {
  const red = { category: 'outros', title: 'Vale ainda', status: 'red' }
  const good = { requirements: [red] }
  const bad = { requirements: undefined }
  return [
    // An analysis that was never usable, and one that became usable.
    make(260, {}, bad),
    make(261, {}, run === 0 ? bad : good),
    // One that broke when its notice changed, and one that broke silently: their earlier rows are kept.
    make(262, run === 2 ? movedAt(run) : {}, run === 2 ? bad : good),
    make(263, {}, run === 0 ? good : bad),
    // Notices that broke, that were never usable, and that were unusable when last seen.
    make(264, run === 0 ? { valor_estimado: 123_456 } : { valor_estimado: 1, pncp_id: undefined }),
    make(265, { pncp_id: undefined }),
    // Notices whose analysis does not exist.
    ...['screening', 'expired', 'suspended'].map((status, index) => ({
      ...make(268 + index, { status }),
      analysis: null,
    })),
    ...(run === 0 ? [make(266, { pncp_id: undefined }), make(267, {}, bad)] : []),
  ]
}

/** Documents that deviate from the contract, but are usable. */
function strangers(make: Make, ahead: Ahead, run: number): Entry[] {
  return [
    make(280, { prioridade: 'alta' }, { score: 0.5 }),
    // Reported again whenever the notice changes.
    make(281, { prioridade: 'baixa', objeto: `Objeto ${run}`, ...movedAt(run) }),
    make(282, { valor_estimado: 'R$ 10,00', data_sessao: 'a definir' }),
    make(
      283,
      { status: 'suspended', data_sessao: ahead(2 * MONTH_AHEAD) },
      {
        requirements: [{ category: 'sustentabilidade', title: 'Selo verde', status: 'blue' }],
        items: [1, 2, 3].map(numero_item => ({ numero_item, marca: 'X', quantidade: 'um' })),
        alerts: [{ type: 'rumor', severity: 'extreme', title: 'Ouvi dizer', action_type: 'rezar' }],
      },
    ),
  ]
}

/** Notices with verdicts that were followed, ignored, missed, and changed. */
function decided(make: Make, ahead: Ahead, run: number): Entry[] {
  const verdict = (recommendation: string | undefined) => ({
    verdict: { recommendation, reason: `Porque ${recommendation}` },
  })
  const lacking = { requirements: [{ category: 'outros', title: 'Falta', status: 'red' }] }
  const verdicts = ['participar', 'cautela', 'nao_recomendado', 'talvez', undefined]
  const discarded = { status: 'discarded', discard_reason: 'Contra o parecer', valor_estimado: 5000 }
  const over = { data_sessao: `${ahead(-2)}T10:00:00`, valor_estimado: 6000 }
  // By run; the same verdict again is no change, and a wrong one is not there.
  const stories = [
    ['participar', 'cautela', 'participar'],
    ['cautela', 'cautela', 'nao_recomendado'],
    [undefined, 'cautela', undefined],
    ['talvez', 'participar', 'outra'],
    ['participar', 'participar', 'participar'],
  ]
  return [
    ...verdicts.map((recommendation, index) => make(350 + index, discarded, verdict(recommendation))),
    make(355, { ...discarded, valor_estimado: 0 }, verdict('participar')),
    make(356, { ...discarded, data_sessao: ahead(MONTH_AHEAD) }, verdict('participar')),
    ...verdicts.map((recommendation, index) => make(360 + index, over, verdict(recommendation))),
    // Confirmed, discarded, over and expired, of today, and long ago.
    make(365, { ...over, participation_confirmed: true }, verdict('participar')),
    make(374, { ...over, participation_confirmed: true }, verdict('nao_recomendado')),
    make(366, { ...over, participation_confirmed: undefined }, verdict('cautela')),
    make(367, { ...over, status: 'discarded', discard_reason: 'Tarde' }, verdict('participar')),
    make(372, { ...over, ...discarded, participation_confirmed: true }, verdict('participar')),
    make(373, { ...over, ...discarded, participation_confirmed: true }, verdict('nao_recomendado')),
    make(368, { ...over, status: 'expired' }, verdict('participar')),
    make(369, { ...over, data_sessao: ahead(0) }, verdict('participar')),
    ...[83, 84].map((ago, index) =>
      make(370 + index, { ...over, data_sessao: ahead(-ago) }, verdict('participar')),
    ),
    // Sessions after 50 days, which may still be in the eighth week.
    ...[49, 50, 55, 56].map((days, index) => make(390 + index, { data_sessao: ahead(days) }, lacking)),
    ...stories.map((those, index) => make(375 + index, {}, verdict(those[run]))),
    // Confirmed, with a requirement that is red, in time and too late.
    ...[0, 6, 7].map((days, index) =>
      make(385 + index, { data_sessao: ahead(days), participation_confirmed: true }, lacking),
    ),
    // A session and a value that change, one of them there and back, and one that is only written differently.
    make(380, { data_sessao: `${ahead(run + 2)}T10:00:00-03:00`, ...movedAt(run) }),
    make(381, { valor_estimado: run === 1 ? 8000 : 7000, ...movedAt(run) }),
    // Corrected after its analysis: its session came forward, and its object is another one.
    make(388, {
      ...{ ...ELSEWHERE, objeto: run === 2 ? 'Objeto corrigido' : 'Objeto', ...movedAt(run) },
      data_sessao: `${ahead(run === 2 ? 18 : 22)}T09:00:00-03:00`,
    }),
    // Earlier by hours; there and back; earlier twice, discarded, and of a day that is over.
    make(383, {
      ...{ data_sessao: `${ahead(16)}T${run === 2 ? '08' : '14'}:00:00`, participation_confirmed: true },
      ...movedAt(run),
    }),
    make(384, { data_sessao: `${ahead(run === 1 ? 12 : 15)}T10:00:00`, ...movedAt(run) }),
    make(389, { data_sessao: `${ahead(20 - 3 * run)}T10:00:00`, ...movedAt(run) }),
    make(394, { data_sessao: `${ahead(20 - run)}T10:00:00`, status: 'discarded', ...movedAt(run) }),
    make(395, { data_sessao: `${ahead(run === 2 ? -3 : 3)}T10:00:00`, ...movedAt(run) }),
    make(382, {
      data_sessao: run === 1 ? `${ahead(9)}T12:00:00Z` : `${ahead(9)}T09:00:00-03:00`,
      ...movedAt(run),
    }),
  ]
}

/** Purchases that were published again, and notices that only look like that; those with higher numbers came first. */
function republished(make: Make, ahead: Ahead, run: number): Entry[] {
  const bidding = {
    ...{ pricing: { garantia_proposta: 1000 }, verdict: { recommendation: 'participar' } },
    items: [{ ai_selected: true, valor_total: 500 }],
    requirements: [{ category: 'garantias', title: 'Republicado', status: 'red' }],
  }
  const near = { data_sessao: `${ahead(15)}T10:00:00`, valor_estimado: 32_000.5 }
  const later = { ...near, data_sessao: `${ahead(22)}T10:00:00` }
  const of = (objeto: string, fields: Fields = near) => ({ objeto, ...fields })
  const since = (days: number) => ({
    created_at: Temporal.PlainDate.from(ahead(-days)).toZonedDateTime('UTC').toInstant().toString(),
  })
  const nameless = { ...near, pncp_id: 'processo' }
  return [
    // Three publications, in three spellings, one by another portal.
    make(430, of('Aquisição de Cadeiras', later), bidding),
    make(431, of('[LICITANET] - AQUISIÇÃO  DE CADEIRAS'), bidding),
    make(432, of(' aquisicao de cadeiras\u200b', { ...near, valor_estimado: 32_000.504 }), bidding),
    // A cent more is another purchase; so is the same text from another buyer.
    make(433, of('Aquisição de Cadeiras', { ...near, valor_estimado: 32_000.51 }), bidding),
    make(434, { ...of('Aquisição de Cadeiras'), pncp_id: `${'13'.repeat(7)}-2026-434` }, bidding),
    // Without a value, or one to believe, and without an object, nothing says that it is the same.
    ...[0, 0, undefined, undefined, 99_999_999.99, 99_999_999.99].map((valor_estimado, index) =>
      make(435 + index, { ...of('Sem valor'), valor_estimado }, bidding),
    ),
    ...[undefined, '', '[LICITANET] - '].flatMap((objeto, index) => [
      make(441 + 2 * index, { ...near, objeto }),
      make(442 + 2 * index, { ...near, objeto }),
    ]),
    // The latest is discarded, perhaps as a copy; all are discarded; the latest is gone.
    make(450, { ...of('Mesas'), status: 'discarded' }, bidding),
    make(451, { ...of('Mesas'), participation_confirmed: true }, bidding),
    make(452, { ...of('Armários'), status: 'discarded' }, bidding),
    make(453, { ...of('Armários'), status: 'discarded' }, bidding),
    ...(run === 2 ? [] : [make(454, of('Estantes', later), bidding)]),
    make(455, of('Estantes'), bidding),
    // Published again after 180 days, in time, and after 181, too late.
    make(456, { ...of('Lousas', later), ...since(20) }, bidding),
    make(457, { ...of('Lousas'), ...since(200) }, bidding),
    make(458, { ...of('Lousas'), ...since(381) }, bidding),
    // Among the first in every list, in a notice without a number, and missed.
    ...[463, 464].map(number =>
      make(number, { ...of('Quadros'), data_sessao: `${ahead(0)}T23:58:00` }, bidding),
    ),
    ...[465, 466].map(number =>
      make(number, { ...of('Painéis'), ...(number === 465 && { numero: undefined }) }, bidding),
    ),
    make(467, of('Biombos'), bidding),
    make(468, { ...of('Biombos'), data_sessao: `${ahead(-1)}T10:00:00` }, bidding),
    // Without a CNPJ, by name.
    make(459, { ...of('Murais', nameless), orgao: 'AUTARQUIA  DO LIVRO' }, bidding),
    make(460, { ...of('Murais', nameless), orgao: 'Autarquia do Livro' }, bidding),
    make(461, { ...of('Murais', nameless), orgao: undefined }, bidding),
    make(462, { ...of('Murais', nameless), orgao: undefined }, bidding),
  ]
}

/** Guarantees, requirements that block, and items that can be compared. */
function priced(make: Make, ahead: Ahead): Entry[] {
  const pricing = (garantia_proposta: number, garantia_contratual?: number, investimento_total?: number) => {
    return { pricing: { garantia_proposta, garantia_contratual, investimento_total } }
  }
  const red = (title: string, status = 'red') => ({ category: 'garantias', title, status })
  const item = (descricao?: string, unidade_medida?: string, valor_unitario_estimado?: number) => {
    return { descricao, unidade_medida, valor_unitario_estimado }
  }
  // One word, and a service, name what is not the same everywhere; a thing of two words is, also if nobody says that it is one.
  const kinds = [
    ...[item(' Cadeira\u00a0', 'UN', 80), item('Cadeira giratória', 'UN', 80)],
    { ...item('Poda de árvores', 'UN', 300), material_ou_servico: 'S' },
    { ...item('Muda de árvore', 'UN', 30), material_ou_servico: 'M' },
  ]
  const selling = (...totals: readonly number[]) => ({
    ...{ overview: { is_srp: true }, verdict: { recommendation: 'cautela' }, ...pricing(55.5) },
    items: totals.map(valor_total => ({ ai_selected: true, valor_total })),
  })
  const near = { data_sessao: `${ahead(13)}T10:00:00`, valor_estimado: 50_000 }
  return [
    make(400, near, pricing(100.5, 200.25, 300)),
    make(401, { ...near, participation_confirmed: true }, pricing(0, undefined, 700)),
    make(402, near, pricing(-5, 99_999_999.99, 1e300)),
    make(403, { ...near, data_sessao: ahead(-1) }, pricing(11)),
    make(404, { ...near, data_sessao: undefined }, pricing(12)),
    // One notice that two requirements block, one that one blocks twice, and one without a value.
    make(410, near, { requirements: [red('Garantia de 5 %'), red('Seguro')] }),
    make(411, near, {
      requirements: [red(' GARANTIA  de 5 % '), red('garantia de 5 %'), red('Seguro', 'yellow')],
    }),
    make(412, { ...near, valor_estimado: 0 }, { requirements: [red('Garantia de\t5 %')] }),
    make(413, { ...near, data_sessao: ahead(-1) }, { requirements: [red('Seguro')] }),
    make(420, near, {
      items: [
        ...[
          item('Papel A4', 'Unidade ', 10),
          item(' papel a4\u00a0', 'UND.', 12),
          item('Caneta azul', 'UN', 2),
        ],
        ...[
          item('Papel A4', 'Caixa', 90),
          item('PAPEL A4', undefined, 3),
          item('Em dois', 'UN', 1),
          ...kinds,
        ],
      ],
    }),
    make(421, near, {
      items: [
        ...[item('PAPEL A4', 'un', 20.5), item('Papel A4', 'cx', 80), item('papel a4', '', 4)],
        ...[item('Em dois', 'UN', 1), item('Em dois', 'UN', 2), item('De zero', 'UN', 5), ...kinds],
        item('Caneta azul', 'UN', 9),
      ],
    }),
    make(422, near, {
      items: [
        ...[item('Papel a4', 'UNID', 14), item('Papel A4', 'CAIXA', 85.5), item('Papel A4', ' - ', 5)],
        ...[item('De zero', 'UN', 0), item('De zero', 'UN', -1), item('Papel A4', 'UN', 99_999_999.99)],
        ...[item(undefined, 'UN', 1), item('', 'UN', 1), item('Papel A 4', 'UN', 1), ...kinds],
      ],
    }),
    // Items over the value of their notice, and a price registration in which the company takes part.
    make(424, { ...near, participation_confirmed: true }, selling(50_000, 50_500, 50_501, -1)),
    // A real is no value that could limit them.
    make(426, { ...near, valor_estimado: 1 }, selling(700)),
    make(425, near, { pricing: { is_srp: true }, verdict: { recommendation: 'participar' } }),
    // Prices of a notice in any phase count.
    make(
      423,
      { ...near, status: 'discarded' },
      { items: [item('Papel A4', 'Únidade', 11), item('De zero', 'UN', 6), item('Caneta azul', 'UN', 20)] },
    ),
  ]
}
