import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer } from 'smtp-server'
import { onTestFinished } from 'vitest'
import type { Authority } from './redis_states.ts'

/** A user of the mail server. */
export const MAIL_USER = { user: 'editais@example.com', password: 'senha p@ra o servidor' } as const

/** A mail that the server accepted, and its recipients. */
export type Received = { readonly to: readonly string[]; readonly wasSecure: boolean; readonly mail: Email }

export type Behaviour = {
  /** Whether a login is needed. */
  readonly login?: boolean
  /** Offers STARTTLS with this certificate, or speaks TLS from the start. */
  readonly tls?: Authority
  readonly fromTheStart?: boolean
  /** Its answers instead of accepting a mail, one after another: about the recipient's address, or the mail. */
  readonly refusals?: [at: 'recipient' | 'mail', code: number, text: string][]
}

/** A real mail server, until the end of the test. */
export async function startMailServer(behaviour: Behaviour = {}) {
  const { login = false, tls, fromTheStart = false, refusals = [] } = behaviour
  const received: Received[] = []
  const refused = (at: 'recipient' | 'mail') => {
    if (refusals[0]?.[0] !== at) return null
    const [, code, text] = refusals.shift() as (typeof refusals)[number]
    return Object.assign(new Error(text), { responseCode: code })
  }
  const secrets = tls && { key: await readFile(tls.key), cert: await readFile(tls.certificate) }
  const server = new SMTPServer({
    ...secrets,
    secure: fromTheStart,
    hideSTARTTLS: !tls,
    authOptional: !login,
    allowInsecureAuth: true,
    disableReverseLookup: true,
    onAuth({ username, password }, _session, done) {
      const isRight = username === MAIL_USER.user && password === MAIL_USER.password
      if (isRight) done(null, { user: username })
      else done(Object.assign(new Error(`Bad password ${password} of ${username}`), { responseCode: 535 }))
    },
    onRcptTo: (_address, _session, done) => done(refused('recipient')),
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', chunk => chunks.push(chunk))
      stream.on('end', async () => {
        const error = refused('mail')
        if (error) return done(error)
        const mail = await PostalMime.parse(Buffer.concat(chunks))
        const to = session.envelope.rcptTo.map(({ address }) => address)
        received.push({ to, wasSecure: session.secure, mail })
        done()
      })
    },
  })
  server.on('error', () => {})
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.server.address() as AddressInfo
  const stop = () => new Promise<void>(resolve => server.close(() => resolve()))
  onTestFinished(stop)
  return { port, received, stop }
}
