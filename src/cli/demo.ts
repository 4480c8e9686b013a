import { existsSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { Command } from 'commander'
import {
  type ApiSettings,
  type Environment,
  readApiSettings,
  readSettings,
  type Settings,
} from '#config/settings.ts'
import { openSnapshot } from '#src/core/lake/read.ts'
import { closing } from '#src/lib/closing.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { createLocalContext, holdCompany, openApi } from '#src/operate/open.ts'
import { renderTable } from '#src/present/terminal/table.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { type Change, tick } from '#src/sandbox/live.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { deriveSandboxKey, startSandbox } from '#src/sandbox/server.ts'
import type { World } from '#src/sandbox/world.ts'
import { sync } from '#src/sync.ts'
import { withDisplay } from './progress.ts'
import { describeRun } from './summary.ts'

const SEED = 'demo'
const COMPANY = 'demo'
const NOTICES = 400
/** Changes between the two runs: enough to show every kind of change. */
const TICKS = 40
/** The demo empties only a directory that contains this file. */
const MARKER = '.editais-sync-demo'

/** Three typical BI questions; they read only the snapshot's Parquet files. */
const QUESTIONS = [
  {
    title: 'What is in the funnel? (notices, estimated value and median age by phase)',
    sql: `SELECT fase, editais, round(valor_total / 1e6, 1) AS "R$ million", round(idade_mediana_dias)::INTEGER AS "age in days"
          FROM funil`,
  },
  {
    title: 'Which sessions come next, and what is still red or yellow?',
    sql: `SELECT strftime(data_sessao_local, '%d/%m %H:%M') AS sessao, uf, fase, trim(left(orgao, 40)) AS orgao,
            requisitos_vermelhos AS red, requisitos_amarelos AS yellow
          FROM agenda_sessoes WHERE fase <> 'Triagem' ORDER BY data_sessao_local, orgao LIMIT 8`,
  },
  {
    title: 'Which serious legal risks can still be contested?',
    sql: `SELECT severidade, acao, prazo::VARCHAR AS "until", trim(left(orgao, 30)) AS orgao, left(titulo, 50) AS alert
          FROM alertas_juridicos
          WHERE em_andamento AND NOT oportunidade AND severidade_ordem <= 2 AND dias_ate_prazo >= 0
          ORDER BY prazo, severidade_ordem, orgao LIMIT 8`,
  },
] as const

export function createDemoCommand(environment: Environment): Command {
  return new Command('demo')
    .description(
      'Run a demonstration: a sandbox API, a full sync, some changes, an incremental sync, three queries.',
    )
    .action(() => demo(environment))
}

async function demo(environment: Environment): Promise<void> {
  const directory = await emptyDirectory(join(readSettings(environment).dataDir, 'demo'))
  const world = generateWorld({ seed: SEED, company: COMPANY, notices: NOTICES, start: new Date() })
  const key = deriveSandboxKey(SEED, COMPANY)
  await using sandbox = closing(await startSandbox({ companies: [{ slug: COMPANY, key, world }] }))
  // Uses none of the user's settings: neither their API nor their key.
  const own = { API_BASE_URL: sandbox.url, API_KEY: key, COMPANY, DATA_DIR: directory, LOG_LEVEL: 'warn' }
  const settings = readSettings(own)
  print(`1. A sandbox with ${NOTICES} notices answers like the real API. A full sync:`)
  await syncAndPrint(settings, readApiSettings(own), true)
  print(`2. Some notices change: ${describeChanges(letLive(world))}. An incremental sync:`)
  await syncAndPrint(settings, readApiSettings(own), false)
  print('3. Three queries, answered from the Parquet files:')
  await answer(join(directory, COMPANY, 'lake'))
  const here = `DATA_DIR=${relative('.', directory)} COMPANY=${COMPANY} ${environment.npm_command ? 'npx editais' : 'editais'}`
  print(
    `Try your own:\n  ${here} query "SELECT * FROM editais LIMIT 5"\n  ${here} report    # one HTML file, to open in a browser\n  ${here} ask decisoes\n  ${here} keys link --description me    # a link to the pages of\n  ${here} serve`,
  )
}

async function syncAndPrint(settings: Settings, apiSettings: ApiSettings, full: boolean): Promise<void> {
  const { report, published, seconds } = await withDisplay(
    settings,
    'Stopping',
    async ({ display, signal }) => {
      const api = openApi(apiSettings, display, signal)
      const context = { ...createLocalContext(settings, display, signal), api }
      const request = { full, restart: full, statuses: null, ids: null, allowMassDelete: false }
      const work = () => sync(request, context)
      return await holdCompany(context, display, { what: 'demo' }, work).finally(() => api.close())
    },
  )
  print(describeRun(report, published, seconds))
  if (report.status !== 'ok') throw new FatalError('The demo ended early.', EXIT[report.status])
}

function letLive(world: World): Change[] {
  const random = createRandom(SEED)
  return Array.from({ length: TICKS }, () => tick(world, random, new Date())).flat()
}

/** Describes the changes: `21 arrived, 30 advanced, …`. */
function describeChanges(changes: readonly Change[]): string {
  const counts = Map.groupBy(changes, change => change.what)
  return [...counts].map(([what, list]) => `${list.length} ${what.replaceAll('_', ' ')}`).join(', ')
}

async function answer(lake: string): Promise<void> {
  const { db } = await openSnapshot(lake)
  using _ = closing(db)
  for (const { title, sql } of QUESTIONS) {
    const { columns, rows } = await db.table(sql)
    print(`${title}\n${renderTable(columns, rows)}`)
  }
}

async function emptyDirectory(directory: string): Promise<string> {
  if (existsSync(directory) && !existsSync(join(directory, MARKER))) {
    throw new FatalError(
      `${directory} was not created by the demo, so the demo does not empty it. Use another DATA_DIR, for example DATA_DIR=data-demo editais demo.`,
      EXIT.usage,
    )
  }
  await rm(directory, { recursive: true, force: true })
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, MARKER), '')
  return directory
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
