import { createHash } from 'node:crypto'
import { hostname } from 'node:os'
import { createTransport } from 'nodemailer'
import type { MailSettings } from '#config/mail.ts'
import { openWithOurMarts } from '#src/core/lake/read.ts'
import { EXIT, FatalError, messageOf, systemCode } from '#src/lib/errors.ts'
import { line } from '#src/present/text/format.ts'
import { type Mail, mailOf, type ReportSpan } from './mail.ts'
import { page } from './page.ts'
import { readFigures } from './queries.ts'

const TIMEOUT_MS = 20_000
/** Maximum characters that a message repeats of a server's answer. */
const MAX_ANSWER = 200

type Composed = Mail & { readonly report: string }

/**
 * Returns the mail about the latest snapshot, and the report that belongs to it.
 * @throws FatalError if there is no snapshot yet.
 */
export async function composeMail(lake: string, span: ReportSpan, now: Date): Promise<Composed> {
  const { db } = await openWithOurMarts(lake)
  try {
    const figures = await readFigures(db, now)
    return { ...mailOf(figures, span), report: page(figures) }
  } finally {
    db.close()
  }
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
    throw error instanceof FatalError ? error : problemOf(error, settings)
  } finally {
    transport.close()
  }
}

function messageId(occasion: string, from: string): string {
  const id = createHash('sha256').update(occasion).digest('hex').slice(0, 32)
  return `<${id}.editais-sync@${from.split('@')[1]}>`
}

function problemOf(error: unknown, { host, port, tls, login }: MailSettings): FatalError {
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
  const said = line(withoutPassword(response, login?.password), MAX_ANSWER)
  const answer = responseCode > 0 ? ` (${said ?? responseCode})` : ''
  if (responseCode >= 400 && responseCode < 500)
    return unreachable(`${at} does not accept the mail now${answer}. Try again later.`)
  if (code === 'EAUTH')
    return wrong(`${at} refuses the login${answer}. Check the user in SMTP_URL, and SMTP_PASSWORD.`)
  if (code === 'ENOAUTH') return wrong(`${at} needs a login${answer}. Put the user into SMTP_URL.`)
  if (code === 'EENVELOPE')
    return wrong(`${at} refuses the sender or all recipients${answer}. Check REPORT_FROM and REPORT_TO.`)
  if (code === 'ETLS' || /certificate|self-signed|wrong version/i.test(messageOf(error)))
    return wrong(
      `${at}: no secure connection (${line(messageOf(error), MAX_ANSWER)}). ${tls === 'from_the_start' ? 'Does it speak TLS from the start? If not, SMTP_URL must begin with smtp://.' : 'Set SMTP_TLS=off only for a server on your own network.'}`,
    )
  if (responseCode >= 500) return wrong(`${at} refuses the mail${answer}. Nothing was sent.`)
  return unreachable(
    `${at} cannot be reached or does not answer (${systemCode(error) ?? line(messageOf(error), MAX_ANSWER)}). Check SMTP_URL.`,
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
