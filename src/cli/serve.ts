import { once } from 'node:events'
import { Command } from 'commander'
import { readCompanies } from '#config/companies.ts'
import { readServeSettings } from '#config/serve.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { companyPaths, makeDataDirectory } from '#src/company.ts'
import { startHttp } from '#src/http_server.ts'
import { openLog } from '#src/log.ts'
import { createMirrorApp } from '#src/mirror/app.ts'
import { Mirror } from '#src/mirror/mirror.ts'
import { stopSignal } from '#src/stop.ts'

export function serveCommand(environment: Environment): Command {
  return new Command('serve')
    .description('Serve the API from the latest snapshots, until Ctrl-C. Keys: npm run keys.')
    .action(() => serve(environment))
}

async function serve(environment: Environment): Promise<void> {
  const settings = readServeSettings(environment)
  const { dataDir, logLevel } = readSettings({ ...environment, COMPANY: undefined })
  const log = await openLog(logLevel, {})
  const stopping = stopSignal(() => log.info('Stopping: requests under way are answered.'))
  const { environments } = await readCompanies(environment)
  // A company that is configured no more is served as long as it has keys.
  const lakeOf = (slug: string) =>
    companyPaths(readSettings(environments.get(slug) ?? { DATA_DIR: dataDir }).dataDir, slug).lake
  await makeDataDirectory(dataDir)
  const mirror = new Mirror({ dataDir, lakeOf, log, now: () => new Date() })
  const app = createMirrorApp({ mirror, settings, log })
  app.get('/', context => context.json(CONTENTS))
  app.get('/healthz', context => context.json({ alive: true }))
  const http = await startHttp(app, settings).catch(async error => {
    await mirror.close()
    throw error
  })
  const { companies } = mirror
  log.info(`Listening on ${http.url}; ${companies.length === 0 ? NO_KEYS : companies.join(', ')}.`)
  if (!stopping.aborted) await once(stopping, 'abort')
  await http.close()
  await mirror.close()
  log.info('Stopped.')
}

const CONTENTS = {
  'GET /api/v1/editais': 'notices, page by page; with an API key (npm run keys)',
  'GET /api/v1/editais/{id}': 'one of them',
  'GET /api/v1/editais/{id}/analysis': 'its analysis',
  'GET /openapi.json': 'the description of all that, OpenAPI 3.1',
  'GET /docs': 'the same for a browser',
  'GET /healthz': 'whether this process is alive',
}

const NO_KEYS = 'no key exists yet: `npm run keys -- create --description "ERP"` makes one'
