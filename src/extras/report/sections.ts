import {
  fitInLine,
  formatDay,
  formatDays,
  formatDistance,
  formatPercent,
  formatPlural,
  formatShortMoney,
  formatWholeMoney,
  NONE,
  number,
} from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { nameCategory, nameRisk } from '#src/present/text/names.ts'
import {
  type Bar,
  badge,
  barChart,
  capitalize,
  formatSessionCounts,
  MAX_CODE,
  MAX_NAME,
  MAX_OBJECT,
  MAX_STACKS,
  more,
  nothing,
  noticeLink,
  numbers,
  stackedChart,
  type TableColumn,
  TO_CONFIRM,
  table,
} from './charts.ts'
import {
  type Against,
  type Buyer,
  type ByVerdict,
  type Demand,
  type Exposure,
  type Figures,
  LIMITS,
  type Phase,
  type Portion,
  type RiskAlert,
} from './figures.ts'
import { changes, decisions, sessions, weeks } from './opening.ts'

/** The alerts by severity, and those with a deadline. */

const MAX_DESCRIPTION = 140
const SEVERITY_BADGES: Readonly<Record<string, string>> = { critical: 'red', high: 'yellow' }

function renderAlerts({ alerts: { rows, total }, alertCounts, key }: Figures): Html {
  const all = alertCounts.reduce((sum, { riscos, outros }) => sum + riscos + outros, key.oportunidades)
  const others = apart('alerta', 'alertas', key.alertas_passados, key.alertas_sem_data)
  if (all === 0 && rows.length === 0)
    return html`${nothing('Nenhum alerta jurídico nos editais com sessão por vir.')}${others}`
  const layers = [
    { name: 'Riscos', colour: 'red' },
    { name: 'Informações e outros', colour: 'unknown' },
  ] as const
  const stacks = alertCounts.map(({ severidade, riscos, outros }) => ({
    label: capitalize(fitInLine(severidade, MAX_CODE) ?? 'sem severidade'),
    values: [riscos, outros],
  }))
  const summary = `Alertas por severidade, sem as oportunidades: ${stacks.map(({ label, values }) => `${label} ${number(values.reduce((a, b) => a + b))}`).join(', ')}.`
  return html`<h3>${formatPlural(all, 'alerta', 'alertas')} nos editais com sessão por vir, ${number(key.oportunidades)} deles ${key.oportunidades === 1 ? 'oportunidade' : 'oportunidades'}</h3>
<p class="lead">Prazos de impugnação ou esclarecimento nos próximos ${LIMITS.soonDays} dias, também de editais sem data: <b>${number(key.alertas_7_dias)}</b>.</p>
${others}
${stacks.length > 0 && stackedChart(summary, layers, stacks.slice(0, MAX_STACKS))}
${
  rows.length === 0
    ? nothing('Nenhum prazo de impugnação ou esclarecimento em aberto.')
    : table({
        caption: `Prazos de impugnação e esclarecimento em aberto${total > rows.length ? `: os primeiros ${rows.length}` : ''}`,
        columns: [
          {
            head: 'Prazo',
            kind: 'date',
            cell: alert =>
              html`${formatDay(alert.prazo)} <small>${formatDistance(alert.dias)}${alert.certeza_prazo === TO_CONFIRM && ` · ${TO_CONFIRM}`}</small>`,
          },
          { head: 'Alerta', kind: 'wide', cell: alertText },
          { head: 'Edital', kind: 'wide', cell: noticeLink },
          { head: 'Fase', cell: alert => fitInLine(alert.fase, MAX_CODE) },
          { head: 'Sessão', kind: 'date', cell: alert => formatDay(alert.data_sessao_dia) },
        ],
        rows,
      })
}
${more(total - rows.length, 'alerta com prazo em aberto', 'alertas com prazo em aberto')}
<p class="note">Prazo: o que o edital diz ou, na falta, o da lei que ele nomeia (Lei 14.133/2021, art. 164: terceiro dia útil antes da sessão), com feriados nacionais e do estado; na dúvida, o dia mais cedo, a confirmar. Um feriado municipal antecipa o prazo: confira sempre o edital.</p>`
}

/** Returns a sentence about notices that are left out above it, because nothing can be done about them, or not yet. */
function apart(one: string, many: string, past: number, undated: number): Html | null {
  if (past + undated === 0) return null
  return html`<p class="note">À parte: ${formatPlural(past, one, many)} de editais em andamento com sessão passada, ${number(undated)} sem data.</p>`
}

function severity(alert: RiskAlert): Html {
  if (alert.oportunidade) return badge('green', 'oportunidade')
  return badge(SEVERITY_BADGES[alert.severity ?? ''], fitInLine(alert.severidade, MAX_CODE) ?? NONE)
}

function alertText(alert: RiskAlert): Html {
  const text = fitInLine(alert.descricao, MAX_DESCRIPTION)
  return html`${severity(alert)} <b>${fitInLine(alert.acao, MAX_CODE)}</b>: ${fitInLine(alert.titulo, MAX_NAME) ?? 'sem título'}${text && html` <small>${text}</small>`}`
}

/** One part of the report: a heading, a summary sentence, a chart, a list. */
type Section = { readonly id: string; readonly title: string; readonly body: Html }

/** States and modalities beyond this number are summed up in a sentence. */
const MAX_PORTION_BARS = 10
const MAX_TABLE_ROWS = 60

const COLOURS = [
  { name: 'Vermelho: falta', head: 'Vermelhos', colour: 'red', of: 'vermelhos' },
  { name: 'Amarelo: atenção', head: 'Amarelos', colour: 'yellow', of: 'amarelos' },
  { name: 'Verde: atendido', head: 'Verdes', colour: 'green', of: 'verdes' },
  { name: 'Sem avaliação', head: 'Sem avaliação', colour: 'unknown', of: 'sem_avaliacao' },
] as const

export function sections(figures: Figures): readonly Section[] {
  return [
    { id: 'decidir', title: 'Para decidir', body: decisions(figures) },
    { id: 'mudou', title: 'O que mudou', body: changes(figures) },
    { id: 'semanas', title: 'Tendência', body: weeks(figures) },
    { id: 'funil', title: 'Funil', body: funnel(figures) },
    { id: 'valor', title: 'Valor por UF e modalidade', body: values(figures) },
    { id: 'sessoes', title: `Sessões dos próximos ${LIMITS.sessionDays} dias`, body: sessions(figures) },
    { id: 'requisitos', title: 'Requisitos de habilitação', body: demands(figures) },
    { id: 'alertas', title: 'Alertas jurídicos e prazos', body: renderAlerts(figures) },
    { id: 'orgaos', title: 'Órgãos', body: buyers(figures) },
  ]
}

const COUNTS: readonly TableColumn<Pick<Phase, 'editais' | 'futuras' | 'passadas' | 'sem_data'>>[] = [
  { head: 'Editais', kind: 'number', cell: row => number(row.editais) },
  { head: 'Sessão futura', kind: 'number', cell: row => number(row.futuras) },
  { head: 'Passada', kind: 'number', cell: row => number(row.passadas) },
  { head: 'Sem data', kind: 'number', cell: row => number(row.sem_data) },
]

function funnel({ funnel, key, against }: Figures): Html {
  const total = funnel.reduce((sum, { editais }) => sum + editais, 0)
  if (total === 0) return nothing('Nenhum edital é acompanhado neste momento.')
  const open = funnel.filter(phase => phase.em_andamento)
  const most = Math.max(...open.map(({ futuras }) => futuras))
  const largest = open.filter(({ futuras }) => futuras === most).map(({ fase }) => fitInLine(fase, MAX_CODE))
  const bars = open.map(
    ({ fase, futuras, valor_futuras }): Bar => ({
      label: fase,
      value: futuras,
      text: `${number(futuras)} · ${formatShortMoney(valor_futuras)}`,
      colour: 'accent',
    }),
  )
  const summary = `Editais com sessão futura por fase: ${open.map(phase => `${fitInLine(phase.fase, MAX_CODE)} ${number(phase.futuras)}`).join(', ')}.`
  return html`<p class="lead">${formatPlural(total, 'edital acompanhado', 'editais acompanhados')}, ${number(key.em_andamento)} em andamento (${formatSessionCounts(key)}).</p>
${decidedAgainst(against)}
${most > 0 && html`<h3>${largest.join(' e ')} ${largest.length > 1 ? 'têm' : 'tem'} mais sessões por vir: ${number(most)}</h3>`}
${barChart(summary, bars)}
${numbers(html`${table({
  caption: 'Editais, valor estimado e tempo por fase',
  columns: [
    { head: 'Fase', cell: (phase: Phase) => fitInLine(phase.fase, MAX_NAME) },
    ...COUNTS,
    { head: 'Sem valor', kind: 'number', cell: phase => number(phase.sem_valor) },
    { head: 'Valor total', kind: 'number', cell: phase => formatWholeMoney(phase.valor_total) },
    { head: 'Valor mediano', kind: 'number', cell: phase => formatWholeMoney(phase.valor_mediano) },
    { head: 'Idade mediana', kind: 'number', cell: phase => formatDays(phase.idade_dias) },
    { head: 'Na fase (mediana)', kind: 'number', cell: timeInPhase },
  ],
  rows: funnel,
})}
<p class="note">As barras são dos editais com sessão futura; a tabela, de todos. Idade: desde que a empresa passou a acompanhar o edital. Na fase: desde que o vimos entrar nela; os editais que já estavam na fase na primeira leitura não são medidos. Valores zerados (em geral sigilosos), simbólicos ou implausíveis contam como “sem valor”.</p>`)}`
}

const AGAINST = [
  ['descartado', 'Participar, mas descartado'],
  ['perdido', 'Participar, mas não confirmado'],
  ['confirmado', 'Não recomendado, mas confirmado'],
] as const

/** Returns what the company decided against the analysis, and what of it can still be reversed. */
function decidedAgainst(against: readonly Against[]): Html | null {
  const [past, ahead] = (['', ' por vir'] as const).map(when =>
    AGAINST.flatMap(([caso, name]) => {
      const found = against.filter(one => one.caso === `${caso}${when}`)
      return found.map(
        ({ editais, valor }) =>
          `${name}: ${number(editais)}${valor > 0 ? ` (${formatShortMoney(valor)})` : ''}`,
      )
    }).join('; '),
  )
  if (!past && !ahead) return null
  return html`<p class="lead">${past && `Contra o parecer, com sessão nas últimas ${LIMITS.weeks} semanas: ${past}. `}${ahead && `Contra o parecer, ainda a tempo de rever: ${ahead}.`}</p>`
}

function timeInPhase({ na_fase_dias, medidos, censurados }: Phase): Html {
  return html`${formatDays(na_fase_dias)}${medidos + censurados > 0 && html` <small>${formatPlural(medidos, 'medido', 'medidos')}, ${number(censurados)} não</small>`}`
}

function demands({ demands, blockers, key }: Figures): Html {
  const total = demands.reduce((sum, demand) => sum + countAll(demand), 0)
  const others = apart(
    'requisito vermelho',
    'requisitos vermelhos',
    key.vermelhos_passados,
    key.vermelhos_sem_data,
  )
  if (total === 0)
    return html`${nothing('Nenhum requisito analisado nos editais com sessão por vir.')}${others}`
  const yellow = demands.reduce((sum, { amarelos }) => sum + amarelos, 0)
  const colours = demands.some(({ sem_avaliacao }) => sem_avaliacao > 0) ? COLOURS : COLOURS.slice(0, 3)
  const charted = demands.slice(0, MAX_STACKS)
  const stacks = charted.map(demand => ({
    label: findCategoryName(demand.categoria),
    values: colours.map(({ of }) => demand[of]),
  }))
  const summary = stacks
    .map(
      ({ label, values }) =>
        `${label} ${values.map((value, index) => `${number(value)} ${colours[index]?.head.toLowerCase()}`).join(', ')}`,
    )
    .join('; ')
  const shown = demands.slice(0, MAX_TABLE_ROWS)
  return html`<h3>${formatPlural(key.requisitos_vermelhos, 'requisito vermelho', 'requisitos vermelhos')} em ${formatPlural(key.editais_com_vermelho, 'edital com sessão por vir', 'editais com sessão por vir')}, e ${formatPlural(yellow, 'amarelo', 'amarelos')}, de ${formatPlural(total, 'requisito', 'requisitos')}</h3>
${others}
${stackedChart(`Requisitos por categoria e cor: ${summary}.`, colours, stacks)}
${numbers(
  table({
    caption: 'Requisitos dos editais com sessão por vir, por categoria e cor',
    columns: [
      { head: 'Categoria', cell: (demand: Demand) => findCategoryName(demand.categoria) },
      ...colours.map(({ head, of }) => ({
        head,
        kind: 'number' as const,
        cell: (demand: Demand) => number(demand[of]),
      })),
    ],
    rows: shown,
  }),
)}
${more(demands.length - shown.length, 'categoria', 'categorias')}
${
  blockers.length > 0 &&
  table({
    caption: 'O que mais bloqueia: requisitos vermelhos, pelo valor dos editais com sessão por vir',
    columns: [
      { head: 'Requisito', kind: 'wide', cell: row => fitInLine(row.titulo, MAX_OBJECT) },
      { head: 'Categoria', cell: row => findCategoryName(row.categoria) },
      { head: 'Editais', kind: 'number', cell: row => number(row.editais) },
      { head: 'Só este falta', kind: 'number', cell: row => number(row.so_este) },
      { head: 'Valor bloqueado', kind: 'number', cell: row => formatWholeMoney(row.valor) },
    ],
    rows: blockers,
  })
}`
}

function countAll({ vermelhos, amarelos, verdes, sem_avaliacao }: Demand): number {
  return vermelhos + amarelos + verdes + sem_avaliacao
}

function values({ states, modalities, key, verdicts }: Figures): Html {
  if (key.em_andamento === 0) return nothing('Nenhum edital em andamento.')
  const secret = key.sem_valor - key.suspeitos
  const without = [
    secret > 0 && formatPlural(secret, 'não informa o valor', 'não informam o valor'),
    key.suspeitos > 0 &&
      formatPlural(key.suspeitos, 'tem valor implausível e não conta', 'têm valor implausível e não contam'),
  ].filter(Boolean)
  return html`<p class="lead"><b>${formatWholeMoney(key.valor_futuras)}</b> em disputa nos editais em andamento com sessão futura; ${formatWholeMoney(key.valor_passadas)} com sessão passada e ${formatWholeMoney(key.valor_sem_data)} sem data${without.length > 0 && `; ${without.join(', ')}`}.</p>
${valueByVerdict(verdicts)}
<div class="pair">
<div>${portions('UF', states)}</div>
<div>${portions('Modalidade', modalities)}</div>
</div>`
}

function valueByVerdict(verdicts: readonly ByVerdict[]): Html | null {
  if (verdicts.length === 0) return null
  // Not a table: a phone would scroll through it for long.
  const parts = verdicts.slice(0, MAX_PORTION_BARS).map(row => {
    const shares = [
      row.Editais > 0 && formatShortMoney(row['Valor estimado']),
      row['Itens selecionados'] > 0 && `itens ${formatShortMoney(row['Itens selecionados'])}`,
      row['Editais RP'] > 0 && `em RP ${formatShortMoney(row['Valor RP'])}`,
      row['Itens RP'] > 0 && `itens em RP ${formatShortMoney(row['Itens RP'])}`,
    ]
    return `${fitInLine(row.Parecer, MAX_CODE) ?? 'Sem parecer'}, ${shares.filter(Boolean).join(', ')}`
  })
  return html`<p class="lead">Por parecer, com os itens selecionados: ${parts.join('; ')}. RP, registro de preços, não obriga o órgão a comprar.</p>`
}

function portions(name: string, all: readonly Portion[]): Html {
  const shown = all.slice(0, MAX_TABLE_ROWS)
  return html`${portionBars(
    name,
    all.filter(({ futuras }) => futuras > 0),
  )}
${numbers(
  table({
    caption: `Editais em andamento por ${name}`,
    columns: [
      { head: name, kind: 'wide', cell: portion => capitalize(fitInLine(portion.nome, MAX_NAME) ?? NONE) },
      ...COUNTS,
      { head: 'Em disputa', kind: 'number', cell: portion => formatWholeMoney(portion.valor_futuras) },
      { head: 'Valor em andamento', kind: 'number', cell: portion => formatWholeMoney(portion.valor) },
    ],
    rows: shown,
  }),
)}${more(all.length - shown.length, 'linha', 'linhas', 'na tabela')}`
}

function portionBars(name: string, coming: readonly Portion[]): Html {
  const [first] = coming
  if (!first) return nothing('Nenhum edital em andamento com sessão futura.')
  const sum = coming.reduce((sum, { valor_futuras }) => sum + valor_futuras, 0)
  const byValue = coming.some(({ valor_futuras }) => valor_futuras > 0)
  const bars = coming.slice(0, MAX_PORTION_BARS).map(
    ({ nome, valor_futuras: valor, futuras }): Bar => ({
      label: capitalize(fitInLine(nome, MAX_NAME) ?? NONE),
      value: byValue ? valor : futuras,
      text: byValue
        ? `${valor > 0 ? formatShortMoney(valor) : 'sem valor'} · ${number(futuras)}`
        : number(futuras),
      colour: 'accent',
    }),
  )
  const rest = coming.slice(bars.length)
  const restValue = rest.reduce((sum, { valor_futuras }) => sum + valor_futuras, 0)
  const restCount = rest.reduce((sum, { futuras }) => sum + futuras, 0)
  const summary = `${byValue ? 'Valor em disputa e editais' : 'Editais'} com sessão futura por ${name}: ${bars.map(({ label, text }) => `${label} ${text}`).join(', ')}.`
  const share = byValue
    ? `${formatPercent(first.valor_futuras / sum)} do valor em disputa`
    : formatPlural(first.futuras, 'edital com sessão futura', 'editais com sessão futura')
  return html`<h3>${bars[0]?.label} tem ${share}</h3>
${barChart(summary, bars)}
<p class="note">${byValue ? 'Valor em disputa · editais com sessão futura.' : 'Editais com sessão futura; nenhum informa o valor.'}${
    rest.length > 0
      ? ` ${rest.length === 1 ? 'Outra' : `Outras ${number(rest.length)}`}: ${formatShortMoney(restValue)} · ${number(restCount)}.`
      : null
  }</p>`
}

function buyers({ buyers: { rows, total }, exposures, key }: Figures): Html {
  const [first] = rows
  if (!first) return nothing('Nenhum órgão com edital em andamento.')
  const sum = rows.reduce((sum, { valor_futuras }) => sum + valor_futuras, 0)
  return html`<p class="lead">${formatPlural(total, 'órgão', 'órgãos')} com editais em andamento${
    key.valor_futuras > 0 && rows.length < total
      ? html`; os ${rows.length} maiores somam ${formatPercent(sum / key.valor_futuras)} do valor em disputa`
      : null
  }.</p>
${table({
  caption: `Órgãos por valor em disputa${total > rows.length ? `: os ${rows.length} maiores` : ''}`,
  columns: [
    { head: 'Órgão', kind: 'wide', cell: buyer => buyerName(buyer) },
    { head: 'Em disputa', kind: 'number', cell: buyer => share(buyer, first.valor_futuras) },
    { head: 'Valor em andamento', kind: 'number', cell: buyer => formatWholeMoney(buyer.valor) },
    { head: 'Em andamento', kind: 'number', cell: buyer => number(buyer.em_andamento) },
    { head: 'Todos', kind: 'number', cell: buyer => number(buyer.editais) },
    { head: 'Descartados', kind: 'number', cell: buyer => formatPercent(buyer.parcela_descartada) },
    { head: 'Risco de pagamento', cell: paymentRisk },
    { head: 'Próxima sessão', kind: 'date', cell: buyer => formatDay(buyer.proxima_sessao) },
  ],
  rows,
})}
${more(total - rows.length, 'órgão', 'órgãos')}
${table({
  caption: 'Editais em andamento por risco de pagamento',
  columns: [
    { head: 'Risco', cell: ({ risco }: Exposure) => capitalize(nameRisk(risco) ?? 'não avaliado') },
    { head: 'Editais', kind: 'number', cell: ({ editais }) => number(editais) },
    { head: 'Confirmados', kind: 'number', cell: ({ confirmados }) => number(confirmados) },
    { head: 'Valor em andamento', kind: 'number', cell: ({ valor }) => formatWholeMoney(valor) },
    { head: 'Em disputa', kind: 'number', cell: ({ valor_futuras }) => formatWholeMoney(valor_futuras) },
  ],
  rows: exposures,
})}`
}

function buyerName({ orgao, uf }: Buyer): string {
  return [fitInLine(orgao, MAX_NAME) ?? 'Órgão não informado', fitInLine(uf, MAX_CODE)]
    .filter(Boolean)
    .join(' · ')
}

/** Returns the risk that counts, and both sources if they differ. */
function paymentRisk({ risco_pagamento, risco_orgao, risco_precificacao }: Buyer): Html | string | null {
  const risk = nameRisk(risco_pagamento)
  if (risco_orgao === null || risco_precificacao === null || risco_orgao === risco_precificacao) return risk
  return html`${risk} <small>relatório do órgão: ${nameRisk(risco_orgao)}; precificação: ${nameRisk(risco_precificacao)}</small>`
}

/** Returns the value with a bar below it, as long as its share of the largest. */
function share({ valor_futuras: valor }: Buyer, most: number): Html {
  const width = most > 0 ? Math.round((100 * valor) / most) : 0
  return html`${formatWholeMoney(valor)}<span class="bar" aria-hidden="true"><span style="width:${width}%"></span></span>`
}

function findCategoryName(category: string | null): string {
  return nameCategory(category) ?? 'Sem categoria'
}
