import { z } from 'zod'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { commaList } from './setting_kinds.ts'

/** The mail of a company's report: its settings as written, and what they mean. */

export type MailSettings = {
  readonly host: string
  readonly port: number
  readonly tls: MailTls
  /** Null if the server takes mail without a login. */
  readonly login: { readonly user: string; readonly password: string } | null
  readonly from: string
  readonly to: readonly string[]
}

const PORTS: Readonly<Record<string, number>> = { 'smtp:': 587, 'smtps:': 465 }
const MAX_RECIPIENTS = 50

/** Mail to this machine needs no TLS. */
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1)$/

/** How a mail server is reached: TLS before the first word (smtps), or by STARTTLS; `off` is plain text. */
type MailTls = 'from_the_start' | 'starttls' | 'off'

/** The password has a setting of its own: addresses end up in logs and process lists. */
const server = z.string().transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : null
  const port = url && (Number(url.port) || PORTS[url.protocol])
  const user = url && decoded(url.username)
  const isBare = url !== null && ['', '/'].includes(url.pathname) && !url.hash
  const query = url?.search ?? ''
  const fits = ['', '?tls=required', ...(url?.protocol === 'smtp:' ? ['?tls=off'] : [])].includes(query)
  if (url?.hostname && port && user !== null && isBare && fits && !url.password) {
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
    const isPlain = query === '?tls=off' || (query === '' && LOOPBACK.test(host))
    const tls: MailTls = url.protocol === 'smtps:' ? 'from_the_start' : isPlain ? 'off' : 'starttls'
    return { host, port, tls, user: user || null }
  }
  context.addIssue({
    code: 'custom',
    message:
      'must be an address such as smtp://user@smtp.example.com:587, smtp://relay.lan?tls=off or smtps://smtp.example.com, with the password in SMTP_PASSWORD',
  })
  return z.NEVER
})

/** Returns null if it is not encoded as addresses are. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

const MUST_BE_ADDRESSES = `must be e-mail addresses separated by commas, at most ${MAX_RECIPIENTS}`

const addresses = commaList(one => z.email().safeParse(one).success, MUST_BE_ADDRESSES).refine(
  list => list.length <= MAX_RECIPIENTS,
  MUST_BE_ADDRESSES,
)

/** Settings of a company's mails. */
export const mailShape = {
  SMTP_URL: server.optional(),
  SMTP_PASSWORD_FILE: z.string().optional(),
  REPORT_FROM: z.email('must be an e-mail address').optional(),
  REPORT_TO: addresses.optional(),
}

type Addressed = {
  readonly server: NonNullable<z.output<z.ZodObject<typeof mailShape>>['SMTP_URL']>
  readonly from: string
  readonly to: readonly string[]
}

/** Returns the server, the sender and those who get the report. @throws FatalError (usage) that names what is missing. */
export function readAddressedMail(values: z.output<z.ZodObject<typeof mailShape>>): Addressed {
  const { SMTP_URL: server, REPORT_TO: to } = values
  const user = server?.user ?? ''
  const from = values.REPORT_FROM ?? (z.email().safeParse(user).success ? user : undefined)
  const missing = [
    !server && 'SMTP_URL (the mail server, for example smtp://user@smtp.example.com:587)',
    !to && 'REPORT_TO (who gets the report)',
    server && !from && 'REPORT_FROM (the sender)',
  ].filter(Boolean)
  if (server && to && from) return { server, from, to }
  throw new FatalError(`The report cannot be mailed. Set ${missing.join(' and ')}.`, EXIT.usage)
}
