import { hostname } from 'node:os'
import { createTransport } from 'nodemailer'
import type { MailSettings } from '#config/mail.ts'
import { shiftToLocalTime } from '#schema/times.ts'
import { closing } from '#src/lib/closing.ts'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import { openWithOurMarts } from '#src/marts/open.ts'
import { describeStand } from '#src/present/deciding.ts'
import {
  fitInLine,
  formatDay,
  formatDayAndTime,
  formatDistance,
  formatMoney,
  formatPlural,
  formatShortMoney,
  number,
} from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { formatNoticeName, formatSessionCounts, MAX_NAME } from './charts.ts'
import {
  type Bounded,
  type Decision,
  type Figures,
  LIMITS,
  type Named,
  type NoticeChange,
} from './figures.ts'
import { listWarnings, page } from './page.ts'
import { type At, readFigures } from './queries.ts'
import { readWeekAgo } from './week_ago.ts'

/** The last day, or the last seven days. */
type ReportSpan = 'day' | 'week'

/** A mail without its addresses. */
type Mail = {
  readonly subject: string
  readonly text: string
  readonly html: string
  /** Name of the complete report, which is attached. */
  readonly fileName: string
}

/** A part of a mail: sentences without a title, or a list below one. */
type Part = { readonly title: string | null; readonly lines: readonly Line[] }
/** A sentence, with the address of the notice that it is about. */
type Line = string | { readonly text: string; readonly address: string }

/** Returns what a mail contains of the report: what to decide, what changed, and where the rest is. */
function composeContents(figures: Figures, span: ReportSpan): Mail {
  const { freshness, today, decisions, key } = figures
  const { company } = freshness
  const title = span === 'week' ? 'Editais da semana' : 'Editais do dia'
  const parts = listParts(figures, span)
  return {
    subject: `${title}, ${company}: ${number(decisions.today.total + decisions.soon.total)} para decidir (${number(decisions.today.total)} hoje), ${formatPlural(key.sessoes_7_dias, 'sessão', 'sessões')} em ${LIMITS.soonDays} dias`,
    text: parts
      .map(({ title, lines }) =>
        title === null
          ? lines.map(renderText).join('\n')
          : [title, ...lines.map(line => `- ${renderText(line)}`)].join('\n'),
      )
      .join('\n\n')
      .concat('\n'),
    html: renderMailPage(`${title} · ${company}`, parts),
    fileName: `editais-${company}-${today.toISOString().slice(0, 10)}.html`,
  }
}

function listParts(figures: Figures, span: ReportSpan): Part[] {
  const { freshness, now, key, decisions, changes, changesUntil } = figures
  const [days, lastDays] =
    span === 'week' ? ['nos 7 dias', 'nos últimos 7 dias'] : ['nas 24 horas', 'nas últimas 24 horas']
  const period = changesUntil ? `${days} até a última leitura da lista` : lastDays
  const changed = changes
    .map(({ mudanca, um_dia, sete_dias }) => ({ mudanca, count: span === 'week' ? sete_dias : um_dia }))
    .filter(({ count }) => count > 0)
  const warnings = listWarnings(freshness, now)
  const read = freshness.ultima_boa_em
  return [
    ...(warnings.length > 0 ? [{ title: null, lines: warnings }] : []),
    {
      title: null,
      lines: [
        `${formatPlural(key.em_andamento, 'edital', 'editais')} em andamento (${formatSessionCounts(key)}), ${formatShortMoney(key.valor_futuras)} em disputa.`,
        `Nos próximos ${LIMITS.soonDays} dias: ${formatPlural(key.sessoes_7_dias, 'sessão', 'sessões')} e ${formatPlural(key.alertas_7_dias, 'alerta com prazo', 'alertas com prazo')}. Em sessões por vir: ${formatPlural(key.requisitos_vermelhos, 'requisito vermelho', 'requisitos vermelhos')}.`,
      ],
    },
    decisionsPart('Para decidir hoje', decisions.today),
    decisionsPart('Para decidir nos próximos dias', decisions.soon),
    {
      title: `O que mudou ${period}`,
      lines:
        changed.length > 0 ? changed.map(({ mudanca, count }) => `${mudanca}: ${number(count)}`) : ['nada'],
    },
    ...newsPart(figures, span),
    {
      title: null,
      lines: [
        `O relatório completo está em anexo. ${read ? `Última leitura completa: ${formatDayAndTime(shiftToLocalTime(read, freshness.timezone))} (${freshness.timezone}).` : ''}`.trim(),
      ],
    },
  ]
}

function decisionsPart(title: string, { rows, total }: Bounded<Decision>): Part {
  const first = total > rows.length ? `, os ${rows.length} primeiros` : ''
  if (total === 0) return { title: null, lines: [`${title}: nada.`] }
  return {
    title: `${title}: ${formatPlural(total, 'edital', 'editais')}${first}`,
    lines: rows.map(decisionLine),
  }
}

/** Names each notice that changed; returns no part if none did. New notices are only counted. */
function newsPart({ news: { rows, total }, changesUntil, now }: Figures, span: ReportSpan): Part[] {
  const sinceMs = (changesUntil ?? now).getTime() - DAY_MS
  const shown = span === 'week' ? rows : rows.filter(({ observado_em }) => observado_em.getTime() > sinceMs)
  if (shown.length === 0) return []
  const first =
    shown.length === rows.length && total > rows.length ? `, as ${rows.length} primeiras mudanças` : ''
  return [{ title: `O que mudou em cada edital${first}`, lines: shown.map(changeLine) }]
}

function changeLine(change: NoticeChange): Line {
  const { mudanca, de, para, impugnar_ate: until } = change
  const facts = [
    ...(para === null ? [] : [`de ${fitInLine(de, MAX_NAME)} para ${fitInLine(para, MAX_NAME)}`]),
    ...(until === null ? [] : [`impugnar até ${formatDay(until)}`]),
  ]
  return linked([`${mudanca}: ${formatNoticeName(change)}`, ...facts].join('; '), change)
}

function linked(text: string, { address }: Named): Line {
  return address === null ? text : { text, address }
}

function decisionLine(decision: Decision): Line {
  const { ate, dias, decisao, recomendacao, nivel, valor, data_sessao_local: session } = decision
  const facts = [
    decisao,
    ...(session === null ? [] : [`sessão ${formatDayAndTime(session)}`]),
    describeStand(recomendacao, nivel),
    ...(valor === null ? [] : [formatMoney(valor)]),
  ]
  return linked(
    `até ${formatDay(ate)} (${formatDistance(dias)}): ${formatNoticeName(decision)}; ${facts.join('; ')}`,
    decision,
  )
}

function renderText(line: Line): string {
  return typeof line === 'string' ? line : `${line.text} ${line.address}`
}

function renderHtml(line: Line): Html {
  return typeof line === 'string' ? html`${line}` : html`<a href="${line.address}">${line.text}</a>`
}

/** Makes a page of plain markup: mail programs support neither style sheets nor drawings. */
function renderMailPage(title: string, parts: readonly Part[]): string {
  const body = parts.map(
    ({ title, lines }): Html =>
      title === null
        ? html`<p>${lines.map((text, index) => html`${index > 0 && html`<br>`}${renderHtml(text)}`)}</p>\n`
        : html`<h2 style="font-size:1.1em">${title}</h2>\n<ul>${lines.map(text => html`<li>${renderHtml(text)}</li>\n`)}</ul>\n`,
  )
  return html`<!doctype html>
<html lang="pt-BR"><head><meta charset="utf-8"><title>${title}</title></head>
<body style="font-family:sans-serif;line-height:1.5;max-width:44rem">
<h1 style="font-size:1.3em">${title}</h1>
${body}</body></html>
`.html
}

const DAY_MS = 24 * 3_600_000
const TIMEOUT_MS = 20_000
/** Maximum characters that a message repeats of a server's answer. */
const MAX_ANSWER = 200

type Composed = Mail & { readonly report: string }

/**
 * Returns the mail about the latest snapshot, and the report that belongs to it.
 * @throws FatalError if there is no snapshot yet.
 */
export async function composeMail(lake: string, span: ReportSpan, at: At): Promise<Composed> {
  const { db, sources } = await openWithOurMarts(lake)
  using _ = closing(db)
  const figures = await readFigures(db, at)
  return { ...composeContents(figures, span), report: page(figures, await readWeekAgo(sources, at.now)) }
}

/**
 * Sends a mail to all recipients at once.
 * @param occasion the same text gives the same Message-ID: receivers then show a mail that was sent twice only once.
 * @throws FatalError if the server did not accept it for each of them; `unreachable` if a later attempt may succeed.
 */
export async function sendMail(mail: Composed, settings: MailSettings, occasion: string): Promise<void> {
  const { host, port, tls, login, from, to } = settings
  const transport = createTransport({
    host,
    port,
    secure: tls === 'from_the_start',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'off',
    tls: { minVersion: 'TLSv1.2' },
    ...(login && { auth: { user: login.user, pass: login.password } }),
    name: hostname(),
    allowInternalNetworkInterfaces: true,
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    // Nothing in a mail may make the library read a file or fetch an address.
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  try {
    const { rejected } = await transport.sendMail({
      from,
      to: [...to],
      subject: mail.subject,
      text: mail.text,
      html: mail.html,
      messageId: messageId(occasion, from),
      // Prevents "out of office" answers.
      headers: { 'Auto-Submitted': 'auto-generated' },
      attachments: [
        { filename: mail.fileName, content: mail.report, contentType: 'text/html; charset=utf-8' },
      ],
    })
    if (rejected.length > 0)
      throw new FatalError(
        `${host}:${port} did not accept the mail for ${rejected.join(', ')}; the others got it. Check REPORT_TO.`,
      )
  } catch (error) {
    throw error instanceof FatalError ? error : explainProblem(error, settings)
  } finally {
    transport.close()
  }
}

function messageId(occasion: string, from: string): string {
  return `<${hashContent(occasion).slice(0, 32)}.editais-sync@${from.split('@')[1]}>`
}

function explainProblem(error: unknown, { host, port, tls, login }: MailSettings): FatalError {
  const at = `The mail server ${host}:${port}`
  const {
    code = '',
    responseCode = 0,
    response = '',
  } = error as {
    code?: string
    responseCode?: number
    response?: string
  }
  const said = fitInLine(withoutPassword(response, login?.password), MAX_ANSWER)
  const answer = responseCode > 0 ? ` (${said ?? responseCode})` : ''
  if (responseCode >= 400 && responseCode < 500)
    return unreachable(`${at} does not accept the mail now${answer}. Try again later.`)
  if (code === 'EAUTH')
    return wrong(`${at} refuses the login${answer}. Check the user in SMTP_URL, and SMTP_PASSWORD.`)
  if (code === 'ENOAUTH') return wrong(`${at} needs a login${answer}. Put the user into SMTP_URL.`)
  if (code === 'EENVELOPE')
    return wrong(`${at} refuses the sender or all recipients${answer}. Check REPORT_FROM and REPORT_TO.`)
  if (code === 'ETLS' || /certificate|self-signed|wrong version/i.test(getMessage(error)))
    return wrong(
      `${at}: no secure connection (${fitInLine(getMessage(error), MAX_ANSWER)}). ${tls === 'from_the_start' ? 'Does it speak TLS from the start? If not, SMTP_URL must begin with smtp://.' : 'Only for a server on your own network, end SMTP_URL with ?tls=off.'}`,
    )
  if (responseCode >= 500) return wrong(`${at} refuses the mail${answer}. Nothing was sent.`)
  return unreachable(
    `${at} cannot be reached or does not answer (${findSystemCode(error) ?? fitInLine(getMessage(error), MAX_ANSWER)}). Check SMTP_URL.`,
  )
}

function withoutPassword(text: string, password: string | undefined): string {
  return password ? text.replaceAll(password, '(password)') : text
}

function unreachable(message: string): FatalError {
  return new FatalError(message, EXIT.failed, { why: 'mail_unreachable' })
}

function wrong(message: string): FatalError {
  return new FatalError(message, EXIT.failed)
}
