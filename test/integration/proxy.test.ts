import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { DAEMON_SETTINGS } from '#config/daemon.ts'
import { HTTP_DEFAULTS } from '#src/lib/http/settings.ts'
import { DAEMON_TEST, startDaemon } from '#test/support/daemon.ts'
import { redisSettings } from '#test/support/daemon_runs.ts'
import { PROJECT } from '#test/support/docker.ts'
import { temporaryDirectory } from '#test/support/project.ts'

vi.setConfig(DAEMON_TEST)

const read = async (path: string) => await readFile(join(PROJECT, path), 'utf8')
const nginx = await read('docs/proxy/nginx.conf')
const caddy = await read('docs/proxy/Caddyfile')

/** The paths that the examples forward: exact, or a prefix if it ends with `*`. */
const nginxPaths = [...nginx.matchAll(/location (=|\^~) (\S+) \{\s*proxy_pass (\S+);/g)].map(
  ([, how, path, target]) => ({
    path: how === '=' ? `${path}` : `${path}*`,
    target: `${target}`,
    bare: `${path}`,
  }),
)
const passed = nginxPaths.map(({ path }) => path)
const isPassed = (path: string) =>
  passed.some(one => (one.endsWith('*') ? path.startsWith(one.slice(0, -1)) : path === one))

test('both examples forward the same few paths, and no path that only resembles them', () => {
  expect(passed).toEqual(['/api/*', '/docs', '/docs/*', '/openapi.json', '/healthz'])
  expect(/^\s*path (.+)$/m.exec(caddy)?.[1]?.split(' ')).toEqual(passed)
  expect(nginx.match(/proxy_pass/g)).toHaveLength(passed.length + 1) // and a comment
  // nginx forwards the path that it matched only if the target has a path.
  for (const { bare, target } of nginxPaths) expect(target).toBe(`http://editais_sync${bare}`)
  // Caddy forwards the original URI, so that is matched as well.
  const asItCame = new RegExp(/vars_regexp \{http\.request\.uri\} (\S+)$/m.exec(caddy)?.[1] ?? 'none')
  for (const uri of ['/api/v1/editais?limit=1', '/docs', '/docs/', '/openapi.json', '/healthz?x']) {
    expect(uri).toMatch(asItCame)
  }
  for (const uri of [
    '/metrics',
    '/queues/..%2fapi/',
    '/docsx',
    '/openapi.json/',
    '/healthzx',
    '//api/',
    '/?/api/',
  ]) {
    expect(uri).not.toMatch(asItCame)
  }
})

test('a worker behind the proxy answers forwarded paths, knows the client, and keeps other paths private', async () => {
  const daemon = await startDaemon({
    ...(await redisSettings()),
    DATA_DIR: await temporaryDirectory(),
    COMPANIES_FILE: '/nowhere/companies.yaml',
    HTTP_TRUSTED_PROXIES: /HTTP_TRUSTED_PROXIES=(\S+?),/.exec(nginx)?.[1] ?? '',
  })
  const values: Record<string, string> = { $host: 'x', $remote_addr: '203.0.113.9', $scheme: 'https' }
  const headers = Object.fromEntries(
    [...nginx.matchAll(/^ *proxy_set_header (X-\S+) (\S+);/gm)].map(([, name = '', value = '']) => [
      name,
      values[value] ?? value,
    ]),
  )
  const through = (path: string) => fetch(`${daemon.url}${path}`, { headers })
  const statuses: Record<string, number> = {}
  for (const path of passed.map(one => one.replace('/api/*', '/api/v1/editais').replace('*', 'start.js'))) {
    const response = await through(path)
    statuses[path] = response.status
    expect(response.headers.get('strict-transport-security'), path).toMatch(/^max-age=\d{7,}/)
    await response.body?.cancel()
  }
  expect(statuses).toEqual({
    '/api/v1/editais': 401,
    '/docs': 200,
    '/docs/start.js': 200,
    '/openapi.json': 200,
    '/healthz': 200,
  })
  const answered = await daemon.waitFor(({ msg, path }) => msg === 'Answered' && path === '/api/v1/editais')
  expect(answered.address).toBe('203.0.113.9')
  const plain = await fetch(`${daemon.url}/healthz`)
  expect(plain.headers.get('strict-transport-security')).toBeNull()

  // The proxy, not the worker, must close the connections that it keeps open.
  const keptMs = Number(/timeout=(\d+)/.exec(plain.headers.get('keep-alive') ?? '')?.[1]) * 1000
  for (const [, seconds] of [/\bkeepalive_timeout (\d+)s/.exec(nginx), /\bkeepalive (\d+)s/.exec(caddy)].map(
    found => found ?? [],
  )) {
    expect(Number(seconds) * 1000).toBeLessThan(keptMs)
  }

  const contents = await fetch(`${daemon.url}/`)
  const pages = Object.keys((await contents.json()) as object).flatMap(
    key => /^[A-Z]+ (\S+)/.exec(key)?.[1] ?? [],
  )
  expect(pages).toEqual(expect.arrayContaining(['/metrics', '/queues', '/readyz', '/report']))
  expect(pages.filter(isPassed)).toEqual(['/api/v1/editais', '/healthz'])
})

test("the API key is not in Caddy's log, which would contain all headers of a failed request", () => {
  expect(caddy).toMatch(/format filter \{\s*wrap json\s*fields \{\s*request>headers>X-Api-Key delete\s/)
})

test('the documents name only HTTP settings that exist, and their limits', async () => {
  const known = DAEMON_SETTINGS.filter(name => /^(?:HTTP|SERVE)_/.test(name))
  const documents = `${await read('README.md')}${await read('docs/operating/network.md')}`
  for (const [name = ''] of `${documents}${nginx}${caddy}`.matchAll(/\b(?:HTTP|SERVE)_[A-Z_]+\b/g)) {
    expect(known).toContain(name)
  }
  const limits = [...documents.matchAll(/^\| .+ \| (\d+)( s)? \|$/gm)]
  expect(limits.map(([, amount, unit]) => Number(amount) * (unit ? 1000 : 1))).toEqual([
    HTTP_DEFAULTS.maxConnections,
    HTTP_DEFAULTS.maxConnectionsPerAddress,
    HTTP_DEFAULTS.requestTimeoutMs,
    HTTP_DEFAULTS.answerTimeoutMs,
  ])
})
