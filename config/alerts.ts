import { z } from 'zod'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { checkKey } from '#src/lib/http/credentials.ts'
import { commaList, serverAddress } from './setting_kinds.ts'
import {
  durationSetting,
  type Environment,
  parseSettings,
  readSecret,
  wholeNumberSetting,
} from './settings.ts'

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
  /** A company is stale after this many of its periods without a good run. */
  readonly afterPeriods: number
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

const apiAddress = serverAddress('must be an http or https address without a key')

export const alertShape = {
  ALERT_AFTER_PERIODS: wholeNumberSetting(1, 1000).default(3),
  ALERT_REPEAT: repeat.prefault('12h'),
  ALERT_WARNINGS_TO: warningsTo.default([...RECEIVERS]),
  ALERT_PAGERDUTY_URL: apiAddress.default('https://events.pagerduty.com'),
  ALERT_OPSGENIE_URL: apiAddress.default('https://api.opsgenie.com'),
}

/** Settings that hold a secret; each has another one, `<name>_FILE`, for the path of a file with it. */
export const ALERT_SECRETS = [
  'ALERT_WEBHOOK_URL',
  'ALERT_SLACK_URL',
  'ALERT_PAGERDUTY_KEY',
  'ALERT_OPSGENIE_KEY',
] as const

/** Throws FatalError (usage) that names what is wrong, and never shows a secret. */
export function alertSettings(
  values: z.output<z.ZodObject<typeof alertShape>>,
  environment: Environment,
): AlertSettings {
  const webhookUrl = addressOf(environment, 'ALERT_WEBHOOK_URL')
  const slackUrl = addressOf(environment, 'ALERT_SLACK_URL')
  const pagerduty = keyOf(environment, 'ALERT_PAGERDUTY_KEY', 'the integration key of PagerDuty')
  const opsgenie = keyOf(environment, 'ALERT_OPSGENIE_KEY', 'the key of an API integration of Opsgenie')
  checkIntegrationKey(pagerduty)
  const receivers = [
    webhookUrl === null ? null : { to: 'webhook' as const, webhookUrl },
    slackUrl === null ? null : { to: 'slack' as const, webhookUrl: slackUrl },
    pagerduty && { to: 'pagerduty' as const, baseUrl: values.ALERT_PAGERDUTY_URL, apiKey: pagerduty.key },
    opsgenie && { to: 'opsgenie' as const, baseUrl: values.ALERT_OPSGENIE_URL, apiKey: opsgenie.key },
  ].filter(receiver => receiver !== null)
  return {
    afterPeriods: values.ALERT_AFTER_PERIODS,
    repeatMs: values.ALERT_REPEAT,
    routes: receivers.map(receiver => ({
      ...receiver,
      severities: values.ALERT_WARNINGS_TO.includes(receiver.to) ? SEVERITIES : ['critical'],
    })),
  }
}

function addressOf(environment: Environment, name: 'ALERT_WEBHOOK_URL' | 'ALERT_SLACK_URL'): string | null {
  const { value } = readSecret(environment, name, 'the address')
  parseSettings(z.object({ [name]: webAddressSetting.optional() }), { [name]: value ?? undefined })
  return value
}

type Key = { readonly key: string; readonly origin: string }

function keyOf(environment: Environment, name: string, what: string): Key | null {
  const { value, origin } = readSecret(environment, name, what)
  if (value === null) return null
  checkKey(value, origin)
  return { key: value, origin }
}

/**
 * Throws FatalError (usage) unless the key has the length that PagerDuty accepts. A key of its REST API, which is shorter, is a
 * common mistake.
 */
function checkIntegrationKey(key: Key | null): void {
  if (key === null || /^[A-Za-z0-9]{32}$/.test(key.key)) return
  throw new FatalError(
    `${key.origin} is not an integration key of PagerDuty's Events API v2, which has 32 letters and digits. Copy it from the service's page, under Integrations.`,
    EXIT.usage,
  )
}
