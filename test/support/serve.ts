import { Agent, request } from 'node:http'
import { Registry } from 'prom-client'
import { onTestFinished } from 'vitest'
import { readSettings } from '#config/settings.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { startHttp } from '#src/lib/http/server.ts'
import { createLogger } from '#src/lib/log.ts'
import { MIRROR_EXTRAS } from '#src/server/api_extras.ts'
import { createService } from '#src/server/contract/app.ts'
import { createServiceMetrics } from '#src/server/contract/metrics.ts'
import { createEntrance } from '#src/server/entrance.ts'
import { KeyStore } from '#src/server/keys.ts'
import { createServeRoutes, type ServeRoutesOptions } from '#src/server/mirror/app.ts'
import { routePages } from '#src/server/pages/routes.ts'
import { ServedCompanies, type ServedCompaniesOptions } from '#src/server/served_companies.ts'
import { until } from './daemon.ts'
import type { Environment } from './project.ts'

export type Answer = {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  /** As received: not decompressed. */
  readonly body: Buffer
}

type Question = {
  readonly method?: string
  readonly key?: string | null
  readonly headers?: Readonly<Record<string, string>>
  /** The local address of the client; default 127.0.0.1. */
  readonly from?: string
}

export type ServedApi = {
  readonly url: string
  /** By company. */
  readonly keys: Readonly<Record<string, string>>
  readonly store: KeyStore
  readonly served: ServedCompanies
  /** The options for another server of the same companies. */
  readonly parts: ServeRoutesOptions
  /** Lines of its log. */
  readonly lines: readonly string[]
  /** Stops it before the end of the test. */
  close(): Promise<void>
  /** Sends a request with the key of `acme`, another key, or none (null). */
  ask(path: string, question?: Question): Promise<Answer>
  /** The body of a 200, as JSON. */
  json<T>(path: string, question?: Question): Promise<T>
}

type Options = {
  /** Companies that have a key. */
  readonly companies?: readonly string[]
  /** Those of them that have a snapshot. */
  readonly ready?: readonly string[]
  /** The server's clock. */
  readonly now?: () => Date
  readonly maxRps?: number
  readonly corsOrigins?: readonly string[]
  readonly trustedProxies?: readonly string[]
} & Pick<ServedCompaniesOptions, 'behindOthers' | 'maxBehindMs'>

/** Serves the data below `DATA_DIR` until the test ends. */
export async function serveApi(environment: Environment, options: Options = {}): Promise<ServedApi> {
  const {
    companies = ['acme'],
    ready = companies,
    maxRps = null,
    corsOrigins = [],
    trustedProxies = [],
  } = options
  const { now = () => new Date(), behindOthers = () => null, maxBehindMs = Infinity } = options
  const dataDir = environment.DATA_DIR as string
  const store = KeyStore.open(dataDir, 5000)
  const keys = Object.fromEntries(companies.map(slug => [slug, store.create(slug, 'test', new Date())]))
  const lines: string[] = []
  const log = createLogger('info', {}, { write: line => void lines.push(line) })
  const findLake = (slug: string) => companyPaths(dataDir, slug).lake
  const { remoteLog } = readSettings({ ...environment, COMPANY: undefined })
  const age = { behindOthers, maxBehindMs }
  const served = new ServedCompanies({
    ...{ dataDir, builders: 2, findLake, findLog: () => remoteLog, log, now },
    ...age,
  })
  const metrics = createServiceMetrics(new Registry())
  const entrance = createEntrance({ served, maxRps, metrics, log })
  const parts = { served, settings: { corsOrigins }, entrance, log }
  const api = createServeRoutes(parts)
  const app = createService({ api, extras: MIRROR_EXTRAS, log, contents: {} })
  routePages(app.pages, { served, entrance, log, now })
  const { url, close } = await startHttp(app, { host: '127.0.0.1', port: 0, trustedProxies })
  const agent = new Agent({ keepAlive: true })
  let ended: Promise<void> | null = null
  const end = async () => {
    served.stopWaiting()
    agent.destroy()
    await close()
    await served.close()
    store.close()
  }
  const endOnce = () => {
    ended ??= end()
    return ended
  }
  onTestFinished(endOnce)
  for (const slug of ready) {
    await until(() => isThere(served, slug), {
      what: () => `a snapshot of ${slug}; the log is\n${lines.join('')}`,
    })
  }
  const ask: ServedApi['ask'] = (path, { key = keys.acme, headers = {}, method = 'GET', from } = {}) =>
    askAt(`${url}${path}`, {
      method,
      agent,
      headers: { ...(key ? { 'x-api-key': key } : {}), ...headers },
      ...(from ? { localAddress: from } : {}),
    })
  return {
    url,
    keys,
    store,
    served,
    parts,
    lines,
    ask,
    close: endOnce,
    async json(path, question) {
      const { status, body } = await ask(path, question)
      if (status !== 200) throw new Error(`${path} answered ${status}: ${body}`)
      return JSON.parse(body.toString())
    },
  }
}

function isThere(served: ServedCompanies, company: string): boolean {
  try {
    return served.getSnapshot(company) !== null
  } catch {
    return false
  }
}

/** Sends a plain HTTP request: no added headers, redirects or decompression. */
export function askAt(
  url: string,
  options: {
    readonly method: string
    readonly headers: Readonly<Record<string, string>>
    readonly agent?: Agent
    readonly localAddress?: string
  },
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request(url, options, response => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => void chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers as Record<string, string>,
          body: Buffer.concat(chunks),
        }),
      )
    })
    asked.on('error', reject)
    asked.end()
  })
}

/** Reads a page for people, as the holder of the key sees it. */
export async function readPage({ url, keys }: ServedApi, path: string): Promise<string> {
  const signIn = await fetch(`${url}/editais/entrar`, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ chave: keys.acme as string }),
    headers: { origin: url },
  })
  const cookie = signIn.headers.get('set-cookie')?.split(';')[0] as string
  return await (await fetch(url + path, { headers: { cookie } })).text()
}
