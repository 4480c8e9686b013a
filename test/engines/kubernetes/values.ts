/** Values of the chart, and what it must say of wrong ones. */

type Values = { readonly [name: string]: unknown }

const FILES = { REDIS_PASSWORD_FILE: 'redis-password', ADMIN_TOKEN_FILE: 'admin-token' }
const COMPANIES = {
  defaults: { api_base_url: 'https://api.example.com', sync_cron: '*/5 * * * *' },
  companies: { acme: { api_key_file: '/run/secrets/acme', api_max_rps: 5 } },
}

const LEAST: Values = {
  image: { repository: 'registry.example.com/editais-sync' },
  logUrl: 's3://bucket/prefix',
  redis: { url: 'redis://redis.data.svc' },
  secret: { name: 'editais-sync', files: { API_KEY_FILE: 'api-key' } },
  settings: { API_BASE_URL: 'https://api.example.com' },
}

const ALL: Values = {
  image: { repository: 'registry.example.com/editais-sync', digest: `sha256:${'0'.repeat(64)}` },
  imagePullSecrets: [{ name: 'registry' }],
  logUrl: 's3://bucket/log',
  lakeUrl: 's3://bucket/lake',
  redis: { url: 'rediss://worker@redis.example.com:6380/1' },
  secret: { name: 'editais-sync', files: { ...FILES, REDIS_CA_FILE: 'ca.pem' } },
  companies: { file: COMPANIES },
  settings: { S3_REGION: 'sa-east-1', API_MAX_RPS: 5 },
  networkPolicy: {
    redis: { to: [{ podSelector: { matchLabels: { app: 'redis' } } }] },
    extraEgress: [{ ports: [{ port: 9000, protocol: 'TCP' }] }],
  },
  serviceAccount: { annotations: { role: 'writer' } },
  autoscaling: { enabled: true },
  serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
  prometheusRule: { enabled: true, runbooks: 'https://git.example.com/runbooks/' },
  dashboard: { enabled: true },
  podAnnotations: { note: 'x' },
  podLabels: { team: 'data' },
  nodeSelector: { disk: 'fast' },
  tolerations: [{ key: 'x', operator: 'Exists' }],
  affinity: { nodeAffinity: {} },
  topologySpreadConstraints: [
    { maxSkew: 1, topologyKey: 'topology.kubernetes.io/zone', whenUnsatisfiable: 'DoNotSchedule' },
  ],
  priorityClassName: 'high',
}

export const VALUES: Readonly<Record<string, Values>> = {
  'as few values as possible': LEAST,
  'every value': ALL,
  'a Secret with the companies': {
    ...ALL,
    companies: { existingSecret: 'companies' },
    redis: { url: 'redis://redis:6379' },
    secret: { name: '', files: {} },
    serviceAccount: { create: false },
    networkPolicy: { operators: [] },
    podDisruptionBudget: { enabled: false },
    autoscaling: { enabled: true },
  },
  'a Redis Cluster': {
    ...ALL,
    redis: {
      url: 'rediss://worker@redis-0.redis.data.svc,redis-1.redis.data.svc:6380?cluster',
      prefix: 'acme',
    },
  },
}

export const REFUSED: readonly (readonly [what: string, change: Values, message: RegExp])[] = [
  ['no LOG_URL', { logUrl: '' }, /\/logUrl/],
  ['a directory as LOG_URL', { logUrl: '/data/log' }, /\/logUrl/],
  ['no image', { image: { repository: '' } }, /\/image\/repository/],
  ['no Redis', { redis: { url: '' } }, /\/redis\/url/],
  ['a password of Redis', { redis: { url: 'redis://worker:secret@redis' } }, /\/redis\/url/],
  ['a password of a cluster', { redis: { url: 'redis://x:secret@a,b?cluster' } }, /\/redis\/url/],
  ['two addresses of one Redis', { redis: { url: 'redis://a,b' } }, /\/redis\/url/],
  [
    'sentinels, which KEDA does not ask',
    { redis: { url: 'redis://a,b/1?sentinel=mymaster' }, autoscaling: { enabled: true } },
    /does not ask the sentinels/,
  ],
  ['a key in a variable', { settings: { API_BASE_URL: 'https://a', API_KEY: 'x' } }, /\/settings/],
  ['a token in a variable', { settings: { API_BASE_URL: 'https://a', ADMIN_TOKEN: 'x' } }, /\/settings/],
  [
    'headers of traces in a variable',
    { settings: { API_BASE_URL: 'https://a', OTEL_EXPORTER_OTLP_HEADERS: 'x=y' } },
    /\/settings/,
  ],
  ['a value set twice', { settings: { API_BASE_URL: 'https://a', LOG_URL: 's3://b' } }, /\/settings/],
  ['a key in the companies', { companies: { file: { companies: { acme: { api_key: 'x' } } } } }, /acme/],
  ['a key of a variable', { companies: { file: { companies: { acme: { api_key_env: 'X' } } } } }, /acme/],
  ['an unknown value', { replica: 3 }, /replica/],
  ['root', { podSecurityContext: { runAsUser: 0 } }, /runAsUser/],
  ['no worker while none is needed', { autoscaling: { minReplicas: 0 } }, /minReplicas/],
  ['no company', { settings: { API_BASE_URL: '' } }, /No company is configured/],
  ['no key', { secret: { files: { API_KEY_FILE: null } } }, /API_KEY_FILE is not set/],
  ['files without a Secret', { secret: { name: '' } }, /secret\.name is not set/],
  [
    'two files of companies',
    { companies: { existingSecret: 'a', existingConfigMap: 'b' } },
    /only one of file/,
  ],
]

export const MISTAKES: readonly (readonly [string, string])[] = [
  ['enableServiceLinks', 'enableServiceLink'],
  ['maxReplicaCount', 'maxReplicas'],
  ['secretTargetRef', 'secretTargetRefs'],
  ['jobLabel', 'jobLabels'],
  ['unhealthyPodEvictionPolicy: AlwaysAllow', 'unhealthyPodEvictionPolicy: true'],
  ['podSelector', 'podSelectors'],
  ['terminationGracePeriodSeconds: 60', 'terminationGracePeriodSeconds: 60s'],
]

export const BASE = LEAST
