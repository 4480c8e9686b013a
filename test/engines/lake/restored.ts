import { cp, mkdir, realpath, rename, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { FORMAT_NAMES } from '#config/lake.ts'
import { getMessage } from '#src/lib/errors.ts'
import type { Served, Servers } from '#test/api/servers.ts'
import type { Result } from '../result.ts'
import { BUCKET, COMPANY, latestOf, settingsOf } from './published.ts'

/** A lake whose log is replaced, in a real object store: one command, which the refusal names, publishes it again. */

const NEW_LOG = ['lake', 'publish', '--new-log', '--company', COMPANY]
/** After this long, the world has something new. */
const WORLD_CHANGES_MS = 3000

type About = { readonly directory: string; readonly endpoint: string; readonly sandbox: Served }

export async function* testRestored(servers: Servers, name: string, about: About): AsyncGenerator<Result> {
  for (const [what, replace] of [
    ['restored from a backup', restore],
    ['begun anew', beginAnew],
  ] as const) {
    const title = `${name}: the lake of a log that was ${what} is published by the command that the refusal names`
    const wrong = await replaceLog(servers, about, replace).then(
      () => [],
      error => [`  ${getMessage(error)}\n`],
    )
    yield { title, wrong }
  }
}

type Places = {
  readonly company: string
  readonly backup: string
  readonly run: (args: string[]) => Promise<unknown>
}

async function restore({ company, backup, run }: Places): Promise<void> {
  await rm(company, { recursive: true })
  await mkdir(company)
  await rename(backup, join(company, 'raw'))
  await run(['rebuild'])
}

async function beginAnew({ company }: Places): Promise<void> {
  await rm(company, { recursive: true })
}

async function replaceLog(
  servers: Servers,
  { directory, endpoint, sandbox }: About,
  replace: (places: Places) => Promise<void>,
): Promise<void> {
  const prefix = `replaced-${replace.name}`
  const settings = await settingsOf(directory, endpoint, prefix)
  const data = join(directory, prefix)
  const company = join(data, COMPANY)
  const backup = join(directory, `${prefix}-backup`)
  const run = async (args: string[]) =>
    await servers.run(args, {
      ...{ API_BASE_URL: sandbox.url, API_KEY: sandbox.key, COMPANY, DATA_DIR: data },
      LAKE_URL: `s3://${BUCKET}/${prefix}`,
      LAKE_FORMATS: FORMAT_NAMES.join(),
      S3_ENDPOINT: endpoint,
      S3_CREDENTIALS_FILE: `${settings.credentialsFile}`,
    })
  await run(['sync'])
  await cp(join(company, 'raw'), backup, { recursive: true })
  // Further than one run gets: it seals up to two segments.
  for (let more = 0; more < 3; more += 1) {
    await sleep(WORLD_CHANGES_MS)
    await run(['sync'])
  }
  const before = (await latestOf(settings)).snapshot
  await replace({ company, backup, run })
  await run(['sync'])
  if ((await latestOf(settings)).snapshot !== before)
    throw new Error('The lake of another log was published.')
  const refusal = await run(['lake', 'publish']).then(() => '', getMessage)
  if (!refusal.includes(`editais ${NEW_LOG.join(' ')}`))
    throw new Error(`The refusal does not name the command: ${refusal}`)
  await run(NEW_LOG)
  await sleep(WORLD_CHANGES_MS)
  await run(['sync'])
  const local = basename(await realpath(join(company, 'lake/latest')))
  const { snapshot } = await latestOf(settings)
  if (snapshot !== local) throw new Error(`The object store has ${snapshot}, not ${local}.`)
  await run(['lake', 'verify'])
}
