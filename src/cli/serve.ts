import { Command } from 'commander'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { readCompanies } from '#config/companies.ts'
import { readServeSettings } from '#config/http.ts'
import { type Environment, readCommonSettings, readSettings } from '#config/settings.ts'
import { companyPaths, makeDataDirectory } from '#src/core/company/company.ts'
import { shareCalls } from '#src/lib/concurrency.ts'
import { startHttp } from '#src/lib/http/server.ts'
import { runService } from '#src/lib/service.ts'
import { openLog } from '#src/operate/open_log.ts'
import { MIRROR_EXTRAS } from '#src/server/api_extras.ts'
import { createService } from '#src/server/contract/app.ts'
import { createServiceMetrics } from '#src/server/contract/metrics.ts'
import { createEntrance } from '#src/server/entrance.ts'
import { KeyStore } from '#src/server/keys.ts'
import { createServeRoutes } from '#src/server/mirror/app.ts'
import { HOME_PATH, routePages } from '#src/server/pages/routes.ts'
import { ServedCompanies } from '#src/server/served_companies.ts'

/** Sampling every 10 ms, the library's default, costs an idle server 0.5 % of a core. */
const LOOP_SAMPLE_MS = 50

export function createServeCommand(environment: Environment): Command {
  return new Command('serve')
    .description(
      'Serve the API from the latest snapshots, until Ctrl-C. Create its API keys with editais keys.',
    )
    .action(() => serve(environment))
}

async function serve(environment: Environment): Promise<void> {
  const settings = readServeSettings(environment)
  const { dataDir, logLevel } = readCommonSettings(environment)
  const log = await openLog(logLevel, {})
  await runService(log, 'Stopping, after answering the requests in flight.', async () => {
    const { environments, places, problem, warnings } = await readCompanies(environment)
    for (const line of problem === null ? warnings : [problem, ...warnings]) log.warn(line)
    // A company that is no longer configured is served as long as it has keys.
    const findPlace = (slug: string) => environments.get(slug) ?? places.get(slug) ?? { DATA_DIR: dataDir }
    const findLake = (slug: string) => companyPaths(readSettings(findPlace(slug)).dataDir, slug).lake
    const findLog = (slug: string) => readSettings(findPlace(slug)).remoteLog
    await makeDataDirectory(dataDir)
    // Throws if the keys cannot be read.
    KeyStore.openIfThere(dataDir, 0)?.close()
    const served = new ServedCompanies({
      dataDir,
      maxBehindMs: settings.maxBehindMs,
      findLake,
      findLog,
      log,
      now: () => new Date(),
    })
    const registry = new Registry()
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS })
    const metrics = createServiceMetrics(registry)
    const entrance = createEntrance({ served, maxRps: settings.maxRps, metrics, log })
    const api = createServeRoutes({ served, settings, entrance, log })
    const service = createService({ api, extras: MIRROR_EXTRAS, log, contents: CONTENTS, home: HOME_PATH })
    routePages(service.pages, { served, entrance, log })
    const render = shareCalls(() => registry.metrics())
    service.pages.get('/metrics', async context =>
      context.body(await render(), 200, { 'content-type': registry.contentType }),
    )
    const http = await startHttp(service, settings).catch(async error => {
      await served.close()
      throw error
    })
    metrics.watch(http.connections)
    metrics.watchKeys(() => served.expiringKeys())
    const { companies } = served
    log.info(`Listening on ${http.url}; ${companies.length === 0 ? NO_KEYS : companies.join(', ')}.`)
    return async () => {
      served.stopWaiting()
      await http.close()
      await served.close()
    }
  })
}

const CONTENTS = {
  'GET /editais/hoje': 'what to decide today, for anyone with an API key',
  'GET /editais': 'pages to browse, search and read notices, for anyone with an API key',
  'GET /api/v1/editais': 'notices, page by page; needs an API key (editais keys)',
  'GET /api/v1/editais/{id}': 'one notice',
  'GET /api/v1/editais/{id}/analysis': 'its analysis',
  'GET /openapi.json': 'this API in OpenAPI 3.1',
  'GET /docs': 'the same, to read in a browser',
  'GET /api/v1/mirror': "what a key may do; the mirror's own API begins with this path",
  'GET /api/v1/mirror/changes': 'what changed since a cursor, in the order of the log',
  'POST /api/v1/mirror/mcp': 'the Model Context Protocol, for AI agents',
  'GET /api/v1/mirror/openapi.json': "the mirror's own API in OpenAPI 3.1",
  'GET /healthz': 'whether this process is alive',
  'GET /metrics': 'metrics for Prometheus',
}

const NO_KEYS = 'there is no API key yet: create one with `editais keys create --description "ERP"`'
