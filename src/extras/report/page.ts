import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { shiftToLocalTime } from '#schema/times.ts'
import { closing } from '#src/lib/closing.ts'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { openWithOurMarts } from '#src/marts/open.ts'
import { isStale } from '#src/present/readings.ts'
import {
  fitInLine,
  formatAge,
  formatDay,
  formatDayAndTime,
  formatPlural,
  formatShortMoney,
  formatWholeMoney,
  NONE,
  number,
} from '#src/present/text/format.ts'
import { type Html, html, trustMarkup } from '#src/present/text/html.ts'
import { nameDriftKind, nameRecordKind, nameRunStatus } from '#src/present/text/names.ts'
import { formatSessionCounts, more, table } from './charts.ts'
import { type Figures, type Freshness, LIMITS, type WeekAgo } from './figures.ts'
import { type At, readFigures } from './queries.ts'
import { sections } from './sections.ts'
import { readWeekAgo } from './week_ago.ts'

const STYLE = [join('..', '..', 'present', 'text', 'theme.css'), 'report.css']
  .map(file => readFileSync(join(import.meta.dirname, file), 'utf8'))
  .join('\n')
/** Blocks all requests and scripts, whatever a notice contains. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
const MAX_ERROR = 300
const MAX_REASON = 120

/** Returns the whole document. */
export function page(figures: Figures, weekAgo: WeekAgo | null): string {
  const { freshness, now } = figures
  const parts = sections(figures)
  const at = (instant: Date | null) => localTimeText(instant, freshness.timezone)
  return html`<!doctype html>
<html lang="pt-BR">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta name="referrer" content="no-referrer">
<title>Relatório de editais · ${freshness.company} · ${formatDay(figures.today)}</title>
<style>
${trustMarkup(STYLE)}</style>
</head>
<body>
<header>
<h1>Relatório de editais <span>${freshness.company}</span></h1>
<p class="when">Dados de <b>${at(freshness.publicado_em)}</b>. Última leitura completa: <b>${at(freshness.ultima_boa_em)}</b>${
    freshness.ultima_boa_em && ` (há ${formatAge(now.getTime() - freshness.ultima_boa_em.getTime())})`
  }. Prazos e sessões contados de <b>${at(now)}</b>, ${zoneName(freshness.timezone)}.</p>
${listWarnings(freshness, now).map(text => html`<p class="warning" role="note">${text}</p>`)}
${keyFigures(figures, weekAgo)}
<nav aria-label="Partes do relatório">${[...parts, { id: 'qualidade', title: 'Qualidade dos dados' }].map(
    ({ id, title }) => html`<a href="#${id}">${title}</a> `,
  )}</nav>
</header>
<main>
${parts.map(
  ({ id, title, body }) => html`<section id="${id}" aria-labelledby="${id}-titulo">
<h2 id="${id}-titulo">${title}</h2>
${body}
</section>
`,
)}</main>
<footer>
<section id="qualidade" aria-labelledby="qualidade-titulo">
<h2 id="qualidade-titulo">Qualidade dos dados</h2>
${quality(figures)}
</section>
<p class="note">Retrato dos dados: ${freshness.snapshot}. Valores estimados são os publicados nos editais, em reais; nas somas, uma compra republicada conta uma vez.</p>
</footer>
</body>
</html>
`.html
}

/** Returns what a reader must know before the figures: that they are old, or that the last run failed. */
export function listWarnings(freshness: Freshness, now: Date): string[] {
  const { ultima_boa_em: read, ultima_execucao_em: ran, ultima_execucao_status, timezone } = freshness
  const list: string[] = []
  if (read === null) list.push('Ainda não houve uma leitura completa: os números podem estar incompletos.')
  else if (isStale(read, now)) {
    const age = formatAge(now.getTime() - read.getTime())
    list.push(`A última leitura completa foi há ${age}: os números podem estar desatualizados.`)
  }
  if (ultima_execucao_status === 'failed')
    list.push(`A última execução, de ${localTimeText(ran, timezone)}, falhou. Veja “Qualidade dos dados”.`)
  return list
}

function keyFigures({ key }: Figures, weekAgo: WeekAgo | null): Html {
  const soon = `nos próximos ${LIMITS.soonDays} dias`
  const tiles = [
    {
      name: 'Editais em andamento',
      value: number(key.em_andamento),
      before: weekAgo && number(weekAgo.em_andamento),
      note: `${formatSessionCounts(key)}; ${number(key.confirmados)} com participação confirmada`,
    },
    {
      name: 'Valor em disputa',
      value: formatShortMoney(key.valor_futuras),
      before: weekAgo && formatShortMoney(weekAgo.valor_futuras),
      note: `${formatWholeMoney(key.valor_futuras)} com sessão futura; mais ${formatWholeMoney(key.valor_passadas)} com sessão passada e ${formatWholeMoney(key.valor_sem_data)} sem data; ${number(key.sem_valor)} sem valor`,
    },
    {
      name: 'Sessões',
      value: number(key.sessoes_7_dias),
      before: weekAgo && number(weekAgo.sessoes_7_dias),
      note: soon,
    },
    {
      name: 'Requisitos vermelhos',
      value: number(key.requisitos_vermelhos),
      before: weekAgo && number(weekAgo.requisitos_vermelhos),
      note: `em ${formatPlural(key.editais_com_vermelho, 'edital', 'editais')} com sessão por vir`,
      alarm: key.requisitos_vermelhos > 0,
    },
    {
      name: 'Alertas com prazo',
      value: number(key.alertas_7_dias),
      before: weekAgo && number(weekAgo.alertas_7_dias),
      note: `${soon}, em ${formatPlural(key.editais_com_alerta_7_dias, 'edital', 'editais')}`,
      alarm: key.alertas_7_dias > 0,
    },
  ]
  return html`<dl class="tiles">${tiles.map(
    ({ name, value, before, note, alarm }) =>
      html`<div${alarm && html` class="alarm"`}><dt>${name}</dt><dd>${value} <small>${note}</small>${before && html` <small>há 7 dias: ${before}</small>`}</dd></div>`,
  )}</dl>`
}

function quality({ freshness, quarantine, drift }: Figures): Html {
  const { editais_ativos, analises_atuais, pendentes, excluidos, em_quarentena, desvios } = freshness
  const at = (instant: Date | null) => localTimeText(instant, freshness.timezone)
  const facts: readonly (readonly [string, string])[] = [
    ['Editais acompanhados', number(editais_ativos)],
    ['Análises atuais', number(analises_atuais)],
    ['Análises pendentes', number(pendentes)],
    ...(excluidos > 0 ? [['Análises fora do escopo', number(excluidos)] as const] : []),
    ['Registros em quarentena', number(em_quarentena)],
    ['Desvios do contrato', number(desvios)],
    ['Última execução', lastRun(freshness)],
    ['Última leitura completa', at(freshness.ultima_boa_em)],
  ]
  const error = fitInLine(freshness.ultima_execucao_erro, MAX_ERROR)
  const open = [
    pendentes > 0 && formatPlural(pendentes, 'análise ainda não foi lida', 'análises ainda não foram lidas'),
    em_quarentena > 0 &&
      `${formatPlural(em_quarentena, 'registro não pôde ser usado e espera', 'registros não puderam ser usados e esperam')} em quarentena`,
  ].filter(Boolean)
  return html`<p class="lead">${
    open.length > 0
      ? `${open.join('; ')}.`
      : 'Todos os editais lidos estão neste relatório; nada está pendente nem em quarentena.'
  }</p>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${error && html`<p class="note">Mensagem da última execução: <code lang="en">${error}</code></p>`}
${
  quarantine.rows.length > 0 &&
  table({
    caption: 'Em quarentena, por motivo',
    columns: [
      { head: 'Registro', cell: row => nameRecordKind(row.kind) },
      {
        head: 'Motivo',
        kind: 'wide',
        cell: row => html`<span lang="en">${fitInLine(row.reason, MAX_REASON) ?? NONE}</span>`,
      },
      { head: 'Registros', kind: 'number', cell: row => number(row.registros) },
      { head: 'Último em', kind: 'date', cell: row => at(row.ultimo_em) },
    ],
    rows: quarantine.rows,
  })
}
${more(quarantine.total - quarantine.rows.length, 'motivo', 'motivos')}
${
  drift.rows.length > 0 &&
  table({
    caption: 'Onde os dados diferem do que o serviço documenta, os mais recentes',
    columns: [
      {
        head: 'Campo',
        kind: 'wide',
        cell: row => html`<code>${fitInLine(row.path, MAX_REASON) ?? NONE}</code>`,
      },
      { head: 'Desvio', cell: row => nameDriftKind(row.kind) },
      { head: 'Vezes', kind: 'number', cell: row => number(row.vezes) },
      { head: 'Último em', kind: 'date', cell: row => at(row.ultimo_em) },
    ],
    rows: drift.rows,
  })
}
${more(drift.total - drift.rows.length, 'desvio', 'desvios')}`
}

function lastRun({ ultima_execucao_em, ultima_execucao_status, timezone }: Freshness): string {
  const status = nameRunStatus(ultima_execucao_status)
  if (ultima_execucao_em === null) return 'não houve'
  return [localTimeText(ultima_execucao_em, timezone), status].filter(Boolean).join(', ')
}

function zoneName(timeZone: string): string {
  return timeZone === 'America/Sao_Paulo' ? 'horário de Brasília' : `horário de ${timeZone}`
}

function localTimeText(instant: Date | null, timeZone: string): string {
  return instant === null ? NONE : formatDayAndTime(shiftToLocalTime(instant, timeZone))
}

/**
 * Returns the report of the latest snapshot in a lake as one self-contained HTML file: no scripts, no fonts, no requests. The
 * same snapshot and instant give the same text.
 * @throws FatalError if there is no snapshot yet.
 */
export async function renderLatestReport(lake: string, at: At): Promise<string> {
  const { db, sources } = await openWithOurMarts(lake)
  using _ = closing(db)
  return page(await readFigures(db, at), await readWeekAgo(sources, at.now))
}

/**
 * Writes the report of the latest snapshot atomically: readers see either the old file or the new one.
 * @param at includes the mode of the file, less the umask.
 */
export async function writeReport(
  lake: string,
  output: string,
  at: At & { readonly mode?: number },
): Promise<{ bytes: number }> {
  const text = await renderLatestReport(lake, at)
  const temporary = join(dirname(output), `.${basename(output)}.${randomBytes(4).toString('hex')}.part`)
  try {
    await writeFile(temporary, text, { flag: 'wx', mode: at.mode ?? 0o666 })
    await rename(temporary, output)
  } catch (error) {
    await rm(temporary, { force: true })
    if (findSystemCode(error) === 'ENOSPC') throw error
    throw new FatalError(
      `${output} cannot be written: ${findSystemCode(error) ?? getMessage(error)}. Name another file with --output.`,
      EXIT.usage,
    )
  }
  return { bytes: Buffer.byteLength(text) }
}
