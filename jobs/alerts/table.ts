import type { Severity } from '#config/alerts.ts'

/**
 * Every alert: what the daemon sends by itself (`name`), the rules of Prometheus and the index of the runbooks follow from
 * it (`npm run alerts`). The runbook of `EditaisRunHangs` is `docs/operating/runbooks/run-hangs.md`.
 */

type Row = {
  /** The name of the rule of Prometheus, and the title of the runbook. */
  readonly rule: `Editais${string}`
  /** The alert that workers send by themselves; null if only Prometheus can see the problem. */
  readonly name: string | null
  /** Critical: data are not mirrored, or may be the wrong ones, until someone acts. */
  readonly severity: Severity
  /** Its text in the index of the runbooks. */
  readonly means: string
  /** Its text in Prometheus. */
  readonly summary: string
  /** When it is raised; by default, while workers raise the same alert: of each company, or of all of them. */
  readonly when: { readonly expr: string; readonly for: string } | 'of each company' | 'of all'
}

export const ALERTS = [
  {
    rule: 'EditaisDown',
    name: null,
    severity: 'critical',
    means: 'No worker has sent metrics for five minutes',
    summary: 'No worker is scraped: nothing is mirrored.',
    when: { expr: 'absent(editais_build_info)', for: '5m' },
  },
  {
    rule: 'EditaisRedisUnusable',
    name: 'redis_unusable',
    severity: 'critical',
    means:
      'The worker is not connected to Redis, or Redis refuses what it needs: it is full, a replica, loading or without rights',
    summary: '{{ $labels.instance }} cannot use Redis, so it starts no runs.',
    when: { expr: 'editais_redis_up == 0', for: '2m' },
  },
  {
    rule: 'EditaisStale',
    name: 'stale',
    severity: 'warning',
    means: 'No run or look has read the whole list of the company for an hour',
    summary: '{{ $labels.company }}: no good run for {{ $value | humanizeDuration }}.',
    when: { expr: 'min by (company) (editais_freshness_seconds) > 3600', for: '5m' },
  },
  {
    rule: 'EditaisNoGoodRun',
    name: null,
    severity: 'warning',
    means: 'No worker knows of a good run of the company',
    summary: '{{ $labels.company }} has had no good run yet.',
    when: { expr: 'min by (company) (editais_without_good_run) == 1', for: '3h' },
  },
  {
    rule: 'EditaisRunsFail',
    name: 'run_failed',
    severity: 'warning',
    means: 'Runs of the company end with an error, cannot start, or crash',
    summary: '{{ $labels.company }}: {{ $value | humanize }} runs failed within an hour.',
    when: {
      expr: 'sum by (company) (increase(editais_runs_total{status="failed"}[1h])) > 2',
      for: '5m',
    },
  },
  {
    rule: 'EditaisRunHangs',
    name: null,
    severity: 'warning',
    means: 'A run should end after `RUN_TIMEOUT` (2 h)',
    summary: '{{ $labels.company }}: a run has been under way for {{ $value | humanizeDuration }}.',
    when: {
      expr: 'time() - max by (company) (editais_run_started_timestamp_seconds) > 10800',
      for: '10m',
    },
  },
  {
    rule: 'EditaisRunsWait',
    name: null,
    severity: 'warning',
    means: 'There are always more runs than slots',
    summary: 'Runs have been waiting for half an hour.',
    when: { expr: 'max(editais_queue_jobs{queue="runs",state="waiting"}) > 0', for: '30m' },
  },
  {
    rule: 'EditaisConfigurationBroken',
    name: 'wrong_configuration',
    severity: 'warning',
    means: "The file is unreadable or not valid, or a company's entry is",
    summary: "{{ $labels.instance }} cannot use the companies' file, or an entry of it.",
    when: { expr: 'editais_configuration_ok == 0', for: '5m' },
  },
  {
    rule: 'EditaisDiskLow',
    name: 'disk_low',
    severity: 'warning',
    means: 'Under 10 % is free',
    summary:
      '{{ $labels.instance }}: {{ $value | humanizePercentage }} of the disk of {{ $labels.directory }} is free.',
    when: { expr: 'editais_disk_free_bytes / editais_disk_size_bytes < 0.1', for: '10m' },
  },
  {
    rule: 'EditaisObjectStoreBehind',
    name: 'store_behind',
    severity: 'warning',
    means: 'Publishing to `LAKE_URL` fails',
    summary: '{{ $labels.company }}: the object store lacks the latest snapshot.',
    when: { expr: 'max by (company) (editais_object_store_current) == 0', for: '30m' },
  },
  {
    rule: 'EditaisServedBehind',
    name: 'served_behind',
    severity: 'warning',
    means: 'A host serves a company from a state that it knows to be old',
    summary:
      '{{ $labels.company }}: {{ $labels.instance }} has known of a newer state for {{ $value | humanizeDuration }}.',
    when: { expr: 'max by (instance, company) (editais_served_behind_seconds) > 600', for: '5m' },
  },
  {
    rule: 'EditaisKeyRefused',
    name: 'key_refused',
    severity: 'critical',
    means: 'The API answers 401: the key is missing, invalid or revoked',
    summary: '{{ $labels.company }}: the API rejects the key.',
    when: 'of each company',
  },
  {
    rule: 'EditaisListSuspect',
    name: 'identity_guard',
    severity: 'critical',
    means: 'All or many stored notices are missing from the list at once',
    summary: '{{ $labels.company }}: the API no longer lists stored notices; nothing was deleted.',
    when: 'of each company',
  },
  {
    rule: 'EditaisQuarantineGrows',
    name: 'quarantine_growing',
    severity: 'warning',
    means: 'The API sent records that do not fit the contract',
    summary: '{{ $labels.company }}: more records cannot be used.',
    when: 'of each company',
  },
  {
    rule: 'EditaisRedisEvicts',
    name: 'redis_evicts',
    severity: 'warning',
    means: 'The `maxmemory-policy` of Redis is not `noeviction`',
    summary: 'Redis may drop jobs when its memory is full.',
    when: 'of all',
  },
  {
    rule: 'EditaisWrongDirectory',
    name: 'wrong_directory',
    severity: 'critical',
    means: 'Without `LOG_URL`, all workers must share one data directory',
    summary: 'A worker has another data directory{{ with $labels.company }} for {{ . }}{{ end }}.',
    when: 'of each company',
  },
  {
    rule: 'EditaisWrongClock',
    name: 'wrong_clock',
    severity: 'warning',
    means: 'The clock of a worker differs from that of Redis or of an object store',
    summary: 'The clock of a worker, of Redis or of an object store is wrong.',
    when: 'of all',
  },
  {
    rule: 'EditaisSharedLogUnusable',
    name: 'shared_log_unusable',
    severity: 'warning',
    means: 'A worker cannot use the object store of `LOG_URL`, so it could not take over a company',
    summary: 'A worker cannot use the object store of LOG_URL, so it could not take over a company.',
    when: 'of all',
  },
  {
    rule: 'EditaisReportNotMailed',
    name: 'report_not_mailed',
    severity: 'warning',
    means: 'The mail server could not be reached for an hour, or refused the mail of the week',
    summary: '{{ $labels.company }}: the report could not be mailed.',
    when: 'of each company',
  },
  {
    rule: 'EditaisApiKeyExpires',
    name: null,
    severity: 'warning',
    means: "A client's API key expires within a week, or has expired",
    summary:
      '{{ $labels.company }}: the API key {{ $labels.key }} is in use, and expires within a week or has expired.',
    when: {
      expr: 'min by (company, key) (editais_api_key_expires_timestamp_seconds) - time() < 604800',
      for: '1h',
    },
  },
  {
    rule: 'EditaisWebhookBehind',
    name: null,
    severity: 'warning',
    means: 'A receiver of webhooks does not get its messages',
    summary:
      '{{ $labels.company }}: the receiver of webhook {{ $labels.webhook }} does not get its messages.',
    when: {
      expr: [
        'max by (company, webhook) (editais_webhook_oldest_waiting_seconds) > 3600',
        'or max by (company, webhook) (editais_webhook_messages{state="given_up"}) > 0',
        'or max by (company, webhook) (editais_webhook_stopped) > 0',
      ].join(' '),
      for: '5m',
    },
  },
] as const satisfies readonly Row[]

/** What can be wrong with a company or with the worker itself; receivers depend on these names. */
export type AlertName = Exclude<(typeof ALERTS)[number]['name'], null>

/** Returns the severity of an alert that workers send. One of a newer version may be unknown here. */
export function findSeverity(name: AlertName): Severity {
  return ALERTS.find(alert => alert.name === name)?.severity ?? 'warning'
}
