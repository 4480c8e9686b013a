import type { IncomingMessage } from 'node:http'
import { messageOf } from '#src/lib/errors.ts'
import { type Intercept, startHttp } from '#src/lib/http/server.ts'
import { createService } from '#src/server/contract/app.ts'
import type { Extras } from '#src/server/contract/openapi.ts'
import { createApiRoutes } from '#src/server/contract/routes.ts'
import type { NoticeSource } from '#src/server/contract/source.ts'
import { type Answering, answerWithFaults, sendRaw } from './answer.ts'
import { createStrikes, type Faults, noFaults } from './faults.ts'
import { createKeyring } from './keys.ts'
import { createRequestLog, describeRequest, type RequestLog, recordRequest } from './requests.ts'

export type SandboxCompany = {
  readonly slug: string
  readonly key: string
  readonly world: NoticeSource
  /** The company's former keys: rejected. */
  readonly revokedKeys?: readonly string[]
}

type SandboxOptions = {
  readonly companies: readonly SandboxCompany[]
  readonly faults?: Faults
  /** Decides which requests a fault with a probability affects. */
  readonly seed?: string | number
  readonly host?: string
  /** 0 picks a free port. */
  readonly port?: number
}

export type Sandbox = {
  /** Origin without a trailing slash: the client's API_BASE_URL. */
  readonly url: string
  readonly port: number
  /** May be changed at any time; the next request sees it. */
  readonly faults: Faults
  readonly requests: RequestLog
  /** Rejects the key from now on. */
  revoke(key: string): void
  /** Stops at once: open requests lose their connection. */
  close(): Promise<void>
}

/**
 * Serves the contract's whole API for several companies, by default on the loopback address only.
 * Throws FatalError with exit code 2 if the port is taken or not allowed.
 */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { companies, faults = noFaults(), host = '127.0.0.1', port = 0 } = options
  const keyring = createKeyring(
    companies.map(company => ({ key: company.key, holder: company })),
    companies.flatMap(company => company.revokedKeys ?? []),
  )
  const api = createApiRoutes({ companyOfKey: key => keyring.find(key)?.world ?? null })
  const service = createService({ api, extras: SANDBOX_EXTRAS, log: null, contents: CONTENTS })
  const requests = createRequestLog()
  const strikes = createStrikes(faults, options.seed)

  const intercept: Intercept = async (incoming, outgoing, serve) => {
    const request = describeRequest(incoming, key => keyring.find(key)?.slug ?? null)
    const finish = recordRequest(requests, request)
    outgoing.once('close', () => finish(outgoing.writableFinished ? outgoing.statusCode : null))
    const answering: Answering = {
      serve,
      ask: async () => await service.fetch(toRequest(incoming), { incoming }),
    }
    try {
      await faults.onRequest?.(request)
      const raw = await faults.respond?.(request)
      if (raw) sendRaw(outgoing, raw)
      else await answerWithFaults(answering, { incoming, outgoing, request }, strikes(request))
    } catch (error) {
      const detail = messageOf(error)
      if (outgoing.headersSent) outgoing.destroy()
      else sendRaw(outgoing, { status: 500, body: JSON.stringify({ error: 'internal_error', detail }) })
    }
  }
  const http = await startHttp(service, {
    host,
    port,
    intercept,
    explain: code =>
      code === 'EADDRINUSE'
        ? `Port ${port} is already in use; choose another with --port.`
        : `Cannot listen on ${host}:${port} (${code}).`,
  })
  return {
    url: http.url,
    port: http.port,
    faults,
    requests,
    revoke: keyring.revoke,
    close: () => http.abort(),
  }
}

const SANDBOX_EXTRAS: Extras = {
  about: `
This is the sandbox: its companies and notices are made up. With \`--fault\`, responses may differ from this description.
`,
  parameters: [],
  responses: {},
  headers: {},
  localSessions: true,
}

const CONTENTS = {
  'GET /api/v1/editais': 'notices, page by page; needs an API key, which the sandbox prints at startup',
  'GET /api/v1/editais/{id}': 'one notice',
  'GET /api/v1/editais/{id}/analysis': 'its analysis',
  'GET /openapi.json': 'description of this API, OpenAPI 3.1',
  'GET /docs': 'the same description for a browser',
  'GET /healthz': 'liveness of this process',
}

function toRequest(incoming: IncomingMessage): Request {
  const headers = Object.entries(incoming.headersDistinct).flatMap(([name, values = []]) =>
    values.map((value): [string, string] => [name, value]),
  )
  return new Request(`http://sandbox.invalid${incoming.url ?? '/'}`, {
    method: incoming.method ?? 'GET',
    headers,
  })
}
