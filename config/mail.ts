import { z } from 'zod'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { type MailTls, mailShape } from './mail_shape.ts'
import { type Environment, parseSettings, readSecret } from './settings.ts'

export type MailSettings = {
  readonly host: string
  readonly port: number
  readonly tls: MailTls
  /** Null if the server takes mail without a login. */
  readonly login: { readonly user: string; readonly password: string } | null
  readonly from: string
  readonly to: readonly string[]
}

const schema = z.object(mailShape)

type Addressed = {
  readonly server: NonNullable<z.output<typeof schema>['SMTP_URL']>
  readonly from: string
  readonly to: readonly string[]
}

/**
 * Reads the settings of mail without the password, which may be read later.
 * @throws FatalError (usage) that names what is missing or wrong.
 */
export function checkMailSettings(environment: Environment): Addressed {
  const values = parseSettings(schema, environment)
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

/** Reads the settings of mail. @throws FatalError (usage) that names what is missing or wrong, also an unreadable password. */
export function readMailSettings(environment: Environment): MailSettings {
  const { server, from, to } = checkMailSettings(environment)
  const { user, ...at } = server
  return { ...at, from, to, login: user === null ? null : { user, password: passwordOf(environment) } }
}

function passwordOf(environment: Environment): string {
  const { value, origin } = readSecret(environment, 'SMTP_PASSWORD', "the user's password")
  if (value !== null) return value
  throw new FatalError(
    `SMTP_URL names a user, but ${origin} is not set. Set it to the user's password, or name no user.`,
    EXIT.usage,
  )
}
