import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { reportHere } from '#test/support/here.ts'
import { editalOf, idAt, openCompany } from '#test/support/prepared.ts'
import { queryLatest, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { KEY } from '#test/support/synced.ts'
import { startOnTerminal } from '#test/support/terminal.ts'

describe('a refused request', () => {
  it('for its key (401) ends the run after one request, with what to do', async () => {
    const company = await openCompany(5)
    company.sandbox.revoke(KEY)
    const ended = await runShared(['sync', '--json'], company.environment)

    expect(ended.code).toBe(1)
    expect(company.sandbox.requests.total).toBe(1)
    expect(JSON.parse(ended.stdout)).toMatchObject({ status: 'failed', requests: 1, listed: 0 })
    expect(ended.stderr).toContain('API key refused (401)')
    expect(ended.stderr).toContain('set API_KEY')
  })

  it('for its parameters (400) ends the run at once and shows the error of the API', async () => {
    const company = await openCompany(3)
    company.sandbox.faults.respond = () => ({
      status: 400,
      body: JSON.stringify({ error: 'invalid_status', detail: 'unknown status: ready' }),
    })
    const report = await reportHere(company.environment, { statuses: ['ready'] }, 2)

    expect(company.sandbox.requests.total).toBe(1)
    expect(report.status).toBe('failed')
    expect(report.error).toContain('invalid_status: unknown status: ready')
  })
})

describe('a request that fails', () => {
  it('with 408, 429, 5xx, a reset, a broken body or a timeout is retried and succeeds', async () => {
    const company = await openCompany(10, { API_TIMEOUT_MS: '400' })
    const { plan } = company.sandbox.faults
    const once = (position: number) => ({
      kinds: ['analysis'] as const,
      ids: [idAt(company, position)],
      first: 1,
    })
    for (const [position, status] of [408, 429, 500, 502, 503, 504].entries()) {
      plan.push({ fault: 'status', status, ...once(position), ...(position % 2 ? { body: 'html' } : {}) })
    }
    plan.push({ fault: 'reset', when: 'before_headers', ...once(6) })
    plan.push({ fault: 'reset', when: 'mid_body', ...once(7) })
    plan.push({ fault: 'hang', ...once(8) })
    plan.push({ fault: 'status', status: 503, kinds: ['list'], first: 1 })

    const report = await reportHere(company.environment)

    expect(report).toMatchObject({ status: 'ok', loaded: 10, failed: 0, requests: 21 })
    expect(company.sandbox.requests.byKind).toMatchObject({ list: 2, analysis: 19 })
    const asked = company.ids.map(id => company.sandbox.requests.byId.get(id)?.analysis)
    expect(asked).toEqual([2, 2, 2, 2, 2, 2, 2, 2, 2, 1])
  })

  it('every time, or with a status that is not retried, fails only its notice', async () => {
    const company = await openCompany(6)
    const [down, forbidden] = [idAt(company, 0), idAt(company, 1)]
    const { plan } = company.sandbox.faults
    plan.push({ fault: 'status', status: 500, kinds: ['analysis'], ids: [down] })
    plan.push({ fault: 'status', status: 403, kinds: ['analysis'], ids: [forbidden] })

    const report = await reportHere(company.environment, {}, 3)

    expect(report).toMatchObject({ status: 'partial', loaded: 4, failed: 2, not_attempted: 0 })
    const { byId } = company.sandbox.requests
    expect(byId.get(down)?.analysis, 'the first try and API_RETRIES more').toBe(3)
    expect(byId.get(forbidden)?.analysis).toBe(1)
    expect(
      await queryLatest(
        company.environment,
        `SELECT edital_id FROM editais WHERE analysis_state = 'pending' ORDER BY ALL`,
      ),
    ).toEqual([down, forbidden].sort().map(edital_id => ({ edital_id })))
  })
})

describe('the pace', () => {
  it('keeps to API_CONCURRENCY, and after a 429 all requests wait for Retry-After', async () => {
    const company = await openCompany(60, { API_CONCURRENCY: '4' })
    const refused = { fault: 'status', status: 429, kinds: ['analysis'], first: 1 } as const
    company.sandbox.faults.plan.push(
      { ...refused, skip: 5, retryAfterSeconds: 1, retryAfterAs: 'seconds' },
      { ...refused, skip: 35, retryAfterSeconds: 2, retryAfterAs: 'date' },
      { fault: 'latency', ms: 5, kinds: ['analysis'] },
    )
    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', loaded: 60, requests: 63 })

    const { recent, peakConcurrent } = company.sandbox.requests
    expect(peakConcurrent).toBe(4)
    const times = recent.map(({ at }) => at.getTime())
    const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0))
    // The first gap is no pause: between the list and the first analysis, the list is compared.
    const pauses = gaps.flatMap((gap, index) => (index > 0 && gap >= 700 ? [index + 1] : []))
    // A date has whole seconds: up to one of the two may already be over.
    expect(pauses, `gaps of ${gaps.join(', ')} ms`).toHaveLength(2)
    // The list, the analyses before the refusal, the refused one, then only those already under way.
    for (const [number, sent] of [1 + 5 + 1, 1 + 35 + 1].entries()) {
      expect(pauses[number]).toBeGreaterThanOrEqual(sent)
      expect(pauses[number]).toBeLessThanOrEqual(sent + 2 * 4)
    }
  })

  it('counts a date of Retry-After from the server’s own clock', async () => {
    const [date, retryAfter] = ['Wed, 01 Jan 2020 00:00:00 GMT', 'Wed, 01 Jan 2020 00:00:01 GMT']
    const sentMs: number[] = []
    const url = await serve((_request, response) => {
      sentMs.push(performance.now())
      if (sentMs.length === 1) response.writeHead(503, { date, 'retry-after': retryAfter }).end()
      else response.end(JSON.stringify({ editais: [], count: 0, total: 0, limit: 200, offset: 0 }))
    })
    const environment = {
      API_BASE_URL: url,
      API_KEY: KEY,
      COMPANY: 'acme',
      DATA_DIR: await temporaryDirectory(),
    }
    expect(await reportHere(environment)).toMatchObject({ status: 'ok', requests: 2 })
    expect((sentMs[1] as number) - (sentMs[0] as number)).toBeGreaterThanOrEqual(990)
  })

  it('counts down on a terminal to the next attempt', async () => {
    const url = await serve((_request, response) => response.writeHead(503, { 'retry-after': '9' }).end())
    const directory = await temporaryDirectory()
    const environment = {
      API_BASE_URL: url,
      API_KEY: KEY,
      COMPANY: 'acme',
      DATA_DIR: join(directory, 'data'),
    }
    const terminal = startOnTerminal(['sync'], environment, directory)
    await terminal.until(/unavailable \(503\); again in [89](\.\d)? s/)
    const shown = await terminal.until(/again in [67](\.\d)? s, for at most \d+/)
    expect(shown).toContain('Scan the list')
    // Where the cursor cannot be moved, there are lines of the log instead.
    const unsized = startOnTerminal(
      ['sync'],
      { ...environment, DATA_DIR: join(directory, 'other') },
      directory,
      '',
    )
    await unsized.until(/\[\d\d:\d\d:\d\d\].*unavailable \(503\); again/)
  })

  it('keeps to API_MAX_RPS requests per second', async () => {
    const company = await openCompany(20, { API_MAX_RPS: '20' })
    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', loaded: 20, requests: 21 })
    const times = company.sandbox.requests.recent.map(({ at }) => at.getTime())
    // Twenty intervals of 50 ms; clocks and timers of the two processes differ by a few ms.
    expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(950)
  })
})

describe('the key', () => {
  it('goes in the header Authorization, and is not sent to redirect targets', async () => {
    const elsewhere: string[] = []
    const origin = await serve((request, response) => {
      elsewhere.push(`${request.url}`)
      response.end('{}')
    })
    const company = await openCompany(4)
    company.sandbox.faults.plan.push({
      fault: 'redirect',
      origin,
      kinds: ['analysis'],
      ids: [idAt(company, 0)],
    })

    const report = await reportHere(company.environment, {}, 3)
    expect(report).toMatchObject({ loaded: 3, failed: 1 })
    expect(report.error).toContain(`the API redirects (302) to ${origin}`)
    const headers = company.sandbox.requests.recent.map(({ headersSeen }) => headersSeen.join())
    expect(headers).toEqual(Array(5).fill('authorization'))

    company.sandbox.faults.plan.push({ fault: 'redirect', origin, kinds: ['list'] })
    expect(await reportHere(company.environment, {}, 1)).toMatchObject({ status: 'failed', requests: 1 })
    expect(elsewhere).toEqual([])
  })
})

describe('an id', () => {
  it('with every allowed character is requested unchanged', async () => {
    const company = await openCompany(2)
    const id = 'A.z_0~9:@+=-'
    const { analysis } = company.world.entry(idAt(company, 0)) ?? { analysis: null }
    company.world.put({
      edital: { ...editalOf(company, idAt(company, 0)), id },
      analysis: { ...analysis, id },
    })
    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', loaded: 3 })
    expect(company.sandbox.requests.byId.get(id)).toEqual({ notice: 0, analysis: 1 })
  })
})

/** Starts a server of its own for this test, and returns its origin. */
async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
