import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, expect, it, onTestFinished, test } from 'vitest'
import { notices } from '#test/support/notices.ts'
import { startReceiver } from '#test/support/otlp.ts'
import { type Environment, runCommand } from '#test/support/project.ts'
import { startRemote } from '#test/support/remote_lake.ts'
import { startSynced } from '#test/support/synced.ts'
import { endpoint, NOT_SENT, onlyTrace, TOKEN, unsentTrace } from '#test/support/traces.ts'

test('a run that goes to an object store has its upload', async () => {
  const remote = await startRemote()
  const { url, received } = await startReceiver()
  const ended = await runCommand(['sync'], { ...remote.environment, ...endpoint(url) })
  expect(ended).toMatchObject({ code: 0 })
  expect(onlyTrace(received).names.at(-1)).toBe('upload')
})

describe('A collector', () => {
  it.each<[string, Parameters<typeof startReceiver>[0], string, Environment]>([
    [
      'that redirects',
      response => response.writeHead(307, { location: 'http://127.0.0.1:9/' }).end(),
      'the collector answered 307',
      {},
    ],
    [
      'that is overloaded',
      response => response.writeHead(503, { 'retry-after': '9999999999' }).end(),
      'the collector is overloaded or not ready',
      {},
    ],
    [
      'that refuses a part',
      // partial_success { rejected_spans: 2, error_message: "no" }
      response => response.end(Buffer.from([0x0a, 0x06, 0x08, 0x02, 0x12, 0x02, 0x6e, 0x6f])),
      'the collector refused a part of it',
      {},
    ],
    [
      'that floods',
      response => response.end(Buffer.alloc(8 << 20, 'x')),
      'the answer of the collector is too long',
      {},
    ],
  ])('%s fails no run', async (_, answer, clause, more) => {
    const { environment } = await startSynced(notices(1, 3))
    const { url, received } = await startReceiver(answer)
    const { line } = await unsentTrace({ ...environment, ...endpoint(url, more) })
    expect(line).toBe(`${NOT_SENT}${clause}. The run itself is not affected.`)
    expect(received).toHaveLength(1)
  })

  it('whose answer never ends delays a run by some 5 s', async () => {
    const { environment } = await startSynced(notices(1, 3))
    let sending: NodeJS.Timeout | undefined
    const { url } = await startReceiver(response => {
      sending = setInterval(() => response.write('x'), 50)
    })
    onTestFinished(() => clearInterval(sending))
    const { line, ms } = await unsentTrace({ ...environment, ...endpoint(url) })
    expect(line).toContain('the collector took longer than 5 s')
    expect(ms).toBeGreaterThan(5000)
    expect(ms).toBeLessThan(15_000)
  })

  it('that is down, speaks no HTTP or has no address fails no run', async () => {
    const { environment } = await startSynced(notices(1, 3))
    const noise = createServer(socket => socket.end('no\r\n\r\n')).listen(0, '127.0.0.1')
    await once(noise, 'listening')
    onTestFinished(() => void noise.close())
    const { port } = noise.address() as { port: number }
    const quick = { OTEL_EXPORTER_OTLP_TIMEOUT: '500' }
    const cases: [string, Environment, string][] = [
      ['http://127.0.0.1:9', quick, `${NOT_SENT}the connection was refused. The run itself`],
      [`http://127.0.0.1:${port}`, quick, `${NOT_SENT}`],
      ['localhost:4317', {}, 'The trace was not sent. OTEL_EXPORTER_OTLP_ENDPOINT must be an address'],
      [
        'http://127.0.0.1:9',
        { OTEL_EXPORTER_OTLP_HEADERS_FILE: '/none/headers' },
        'The trace was not sent. OTEL_EXPORTER_OTLP_HEADERS_FILE (not shown',
      ],
      [
        'http://127.0.0.1:9',
        { OTEL_EXPORTER_OTLP_HEADERS: `x=${TOKEN}%0a` },
        `${NOT_SENT}OTEL_EXPORTER_OTLP_HEADERS is not valid.`,
      ],
    ]
    for (const [address, more, beginning] of cases) {
      const { line } = await unsentTrace({ ...environment, ...endpoint(address, more) })
      expect(line.startsWith(beginning), line).toBe(true)
      expect(line).not.toContain(TOKEN)
    }
  })
})
