import { z } from 'zod'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { checkKey } from '#src/lib/http/credentials.ts'
import { commaList } from './setting_kinds.ts'
import { durationSetting, type Environment, parseSettings, readSecret } from './settings.ts'

/** The most urgent first; the words are those of the Prometheus rules. */
const SEVERITIES = ['critical', 'warning'] as const
export type Severity = (typeof SEVERITIES)[number]

/** The receivers of alerts, each with its own form. */
const RECEIVERS = ['webhook', 'slack', 'pagerduty', 'opsgenie'] as const
export type ReceiverName = (typeof RECEIVERS)[number]

/** A receiver and the severities that it gets. */
export type AlertRoute = { readonly severities: readonly Severity[] } & (
  | {
      readonly to: 'webhook' | 'slack'
      /** May hold a token: it is never logged or stored. */
      readonly webhookUrl: string
    }
  | { readonly to: 'pagerduty' | 'opsgenie'; readonly baseUrl: string; readonly apiKey: string }
)

export type AlertSettings = {
  /** An alert that lasts is sent again after this; 0 for never. */
  readonly repeatMs: number
  readonly routes: readonly AlertRoute[]
}

const MIN_REPEAT_MS = 60_000

const repeat = z
  .string()
  .transform(text => (text === '0' ? '0s' : text))
  .pipe(durationSetting)
  .refine(ms => ms === 0 || ms >= MIN_REPEAT_MS, 'must be 0 for never, or at least 1m')

const warningsTo = commaList(
  part => part === 'none' || (RECEIVERS as readonly string[]).includes(part),
  `must be ${RECEIVERS.join(', ')}, separated by commas, or none`,
)

export const webAddressSetting = z
  .string()
  .refine(
    text => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol),
    'must be an http or https address',
  )

export const alertShape = {
  ALERT_REPEAT: repeat.prefault('12h'),
  ALERT_WARNINGS_TO: warningsTo.default([...RECEIVERS]),
}

/** Settings that hold a secret; each has another one, `<name>_FILE`, for the path of a file with it. */
export const ALERT_SECRETS = [
  'ALERT_WEBHOOK_URL',
  'ALERT_SLACK_URL',
  'ALERT_PAGERDUTY_KEY',
  'ALERT_OPSGENIE_KEY',
] as const

/** Throws FatalError (usage) that names what is wrong, and never shows a secret. */
export function readAlertSettings(
  values: z.output<z.ZodObject<typeof alertShape>>,
  environment: Environment,
): AlertSettings {
  const webhookUrl = readAddress(environment, 'ALERT_WEBHOOK_URL')
  const slackUrl = readAddress(environment, 'ALERT_SLACK_URL')
  const pagerduty = readAccount(environment, PAGERDUTY)
  const opsgenie = readAccount(environment, OPSGENIE)
  const receivers = [
    webhookUrl === null ? null : { to: 'webhook' as const, webhookUrl },
    slackUrl === null ? null : { to: 'slack' as const, webhookUrl: slackUrl },
    pagerduty && { to: 'pagerduty' as const, ...pagerduty },
    opsgenie && { to: 'opsgenie' as const, ...opsgenie },
  ].filter(receiver => receiver !== null)
  return {
    repeatMs: values.ALERT_REPEAT,
    routes: receivers.map(receiver => ({
      ...receiver,
      severities: values.ALERT_WARNINGS_TO.includes(receiver.to) ? SEVERITIES : ['critical'],
    })),
  }
}

function readAddress(environment: Environment, name: 'ALERT_WEBHOOK_URL' | 'ALERT_SLACK_URL'): string | null {
  const { value } = readSecret(environment, name, 'the address')
  parseSettings(z.object({ [name]: webAddressSetting.optional() }), { [name]: value ?? undefined })
  return value
}

/** `form`: what a key looks like, and the sentence for another one. */
type Service = Readonly<Record<'setting' | 'what' | 'baseUrl', string>> & { form?: readonly [RegExp, string] }

const PAGERDUTY: Service = {
  setting: 'ALERT_PAGERDUTY_KEY',
  what: 'the integration key of PagerDuty',
  baseUrl: 'https://events.pagerduty.com',
  // A key of its REST API, which is shorter, is a common mistake.
  form: [
    /^[A-Za-z0-9]{32}$/,
    "is not an integration key of PagerDuty's Events API v2, which has 32 letters and digits. Copy it from the service's page, under Integrations.",
  ],
}
const OPSGENIE: Service = {
  setting: 'ALERT_OPSGENIE_KEY',
  what: 'the key of an API integration of Opsgenie',
  baseUrl: 'https://api.opsgenie.com',
}

/** Reads a key, which may be part of the address of its region: `https://KEY@api.eu.opsgenie.com`. Null if it is not set. */
function readAccount(environment: Environment, { setting, what, baseUrl, form }: Service) {
  const { value, origin } = readSecret(environment, setting, what)
  if (value === null) return null
  const [, start, key, end] = /^(https?:\/\/)([^@/?#:]+)@([^@?#]+)$/.exec(value) ?? []
  const apiKey = key ?? value
  checkKey(apiKey, origin)
  if (key === undefined ? /[@:/]/.test(value) : !URL.canParse(`${start}${end}`)) {
    const example = baseUrl.replace('//', '//KEY@')
    throw new FatalError(
      `${origin} is neither a key nor an address with a key, as in ${example}.`,
      EXIT.usage,
    )
  }
  if (form && !form[0].test(apiKey)) throw new FatalError(`${origin} ${form[1]}`, EXIT.usage)
  return { apiKey, baseUrl: key === undefined ? baseUrl : `${start}${end}`.replace(/(?<!\/)\/+$/, '') }
}
