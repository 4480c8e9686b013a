import { expect, test } from 'vitest'
import { until } from '#test/support/daemon.ts'
import { serveWorker } from '#test/support/http.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { exchange, parsed } from '#test/support/raw_http.ts'
import { serveApi } from '#test/support/serve.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'

const LIST = '/api/v1/editais'
const NOTICE = `${LIST}/${idOf(1)}`

/** Paths that a router may confuse with others, and some that it must treat alike. */
const PATHS: readonly string[] = [
  ...['', '/', '/.', '/..', '/%2e', '/%2E%2e', '/./', '//', '/%2f', '/ ', '/%20', '/%00', '/%', '/%zz'],
  ...['?', '/?', '?limit=1', '/?limit=1', '?limit=1&limit=2', '?limit=-1', '?limit=abc', '?offset=1e9'],
  ...[
    '?status=',
    '?status=ready',
    '?status=nope',
    '?status=ready,,analysis',
    '?status=%00',
    '?status[]=ready',
  ],
  ...['/unknown', '/unknown/', '/unknown/analysis', '/unknown/analysis/', '/analysis', '/analysis/analysis'],
  ...[
    '//analysis',
    '/%2e/analysis',
    '/../editais',
    '/.%2e/editais',
    '/constructor',
    '/__proto__',
    '/;',
    '/*',
  ],
].map(rest => `${LIST}${rest}`)
const NOTICE_PATHS: readonly string[] = [
  ...[
    '',
    '/',
    '/.',
    '/..',
    '/%2e',
    '?',
    '/?',
    '//',
    '/analysis',
    '/analysis/',
    '/analysis/.',
    '/analysis/..',
  ],
  ...[
    '/analysis?x=1',
    '/analysis/x',
    '/Analysis',
    '/%61nalysis',
    '/analysis%2f',
    '/x',
    '/x/y',
    ';x=1',
    '%00',
  ],
].map(rest => `${NOTICE}${rest}`)
const OTHER_PATHS: readonly string[] = [
  ...[
    '/api',
    '/api/',
    '/api/v1',
    '/api/v1/',
    '/api/v2/editais',
    '/api/v1/editaisx',
    '/api/v1/Editais',
    '/API/v1',
  ],
  ...[
    '//api/v1/editais',
    '/api//v1/editais',
    '/api/v1/./editais',
    '/api/./v1/editais',
    '/x/../api/v1/editais',
  ],
  ...[
    '/healthz',
    '/healthz/',
    '/healthz/x',
    '/healthz?x',
    '/Healthz',
    '/docs/x',
    '/docs/swagger-ui-secret.js',
  ],
  ...[
    '/docs/../healthz',
    '/openapi.yaml',
    '/nowhere',
    '/nowhere/',
    '/%2e%2e/etc/passwd',
    '/favicon.ico',
    '/.env',
  ],
]

type Question = { readonly line: string; readonly headers: string }

function questions(key: string): Question[] {
  const withKey = `X-API-Key: ${key}\r\n`
  const all = [...PATHS, ...NOTICE_PATHS, ...OTHER_PATHS]
  return [
    ...all.map(path => ({ line: `GET ${path}`, headers: withKey })),
    ...all.filter((_, n) => n % 2 === 0).map(path => ({ line: `GET ${path}`, headers: '' })),
    ...['POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'PROPFIND', 'TRACE'].flatMap(method =>
      [LIST, `${LIST}/`, NOTICE, `${NOTICE}/`, `${NOTICE}/analysis`, '/healthz', '/nowhere', '/api/v2'].map(
        path => ({ line: `${method} ${path}`, headers: `${withKey}Content-Length: 0\r\n` }),
      ),
    ),
    ...[
      'Authorization: Bearer\r\n',
      'Authorization: Basic YTpi\r\n',
      `Authorization: Bearer ${key}\r\n`,
      `Authorization: bearer  ${key} \r\n`,
      `Authorization: Bearer ${key}\r\n${withKey}`,
      `Authorization: Bearer other\r\n${withKey}`,
      `${withKey}${withKey}`,
      `${withKey}Host: y\r\n`,
    ].map(headers => ({ line: `GET ${NOTICE}`, headers })),
    { line: `GET ${LIST}?status=${'a'.repeat(5000)}`, headers: withKey },
    { line: `GET ${LIST}?status=${'a'.repeat(20_000)}`, headers: withKey },
  ]
}

/** What must be equal: documents differ in form, and the server's name is tested elsewhere. */
function essence(answer: string): object {
  const { status, headers, body } = parsed(answer)
  const about = [status, headers['content-type'], headers.allow, headers['www-authenticate']]
  if (status !== 200) return { about, body }
  if (headers['content-type'] !== 'application/json' || body === '') return { about }
  const { count, total, id, alive } = JSON.parse(body) as Record<string, unknown>
  return { about, count, total, id, alive }
}

test('sandbox, serve and daemon give the same answer to every request', async () => {
  const company = await startSynced(notices(1, 3))
  const mirrored = await serveApi(company.environment)
  const worker = await serveWorker({ dataDir: company.environment.DATA_DIR as string })
  const key = mirrored.keys.acme as string
  const list = () => fetch(worker.url + LIST, { headers: { 'x-api-key': key } })
  await until(async () => (await list()).ok, { what: 'the snapshot in the worker' })
  const servers = [
    { name: 'serve', url: mirrored.url, key },
    { name: 'daemon', url: worker.url, key },
    { name: 'sandbox', url: company.sandbox.url, key: company.environment.API_KEY as string },
  ]
  const asked = questions('KEY')
  expect(asked.length).toBeGreaterThan(200)
  for (const { line, headers } of asked) {
    const answers = await Promise.all(
      servers.map(async ({ url, ...server }) => {
        const text = `${line} HTTP/1.1\r\nHost: x\r\n${headers.replaceAll('KEY', server.key)}Connection: close\r\n\r\n`
        return essence(await exchange(url, text))
      }),
    )
    for (const [n, answer] of answers.entries())
      expect(answer, `${line}, ${headers}: ${servers[n]?.name} beside serve`).toEqual(answers[0])
  }
})

test('an id that is empty or consists of dots never returns the list', async () => {
  const company = await startCompany(notices(1, 3))
  const { url } = company.sandbox
  for (const path of ['/', '/.', '/..', '/%2e', '/%2e%2e', '//', '/./', '//analysis', '/%2e/analysis']) {
    const text = `GET ${LIST}${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${company.environment.API_KEY}\r\nConnection: close\r\n\r\n`
    const { status, body } = parsed(await exchange(url, text))
    expect([path, status, body]).toEqual([path, 404, '{"error":"not_found"}'])
  }
})
