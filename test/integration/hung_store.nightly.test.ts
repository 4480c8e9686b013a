import { expect, test } from 'vitest'
import { anotherHost, LOG, startSharedLog } from '#test/support/hosts.ts'
import { expectEnd, expectEndAfterReport, givenBack, hang, interrupted } from '#test/support/hung_store.ts'
import { notices } from '#test/support/notices.ts'
import type { Environment } from '#test/support/project.ts'
import {
  LAKE,
  latestLocal,
  latestOf,
  startRemote,
  startRemoteWithCatalog,
} from '#test/support/remote_lake.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'
import type { CatalogRequest } from '#tools/iceberg_catalog.ts'
import type { S3Request } from '#tools/s3_server.ts'

test.each<[what: string, args: readonly string[], isMeant: (request: S3Request) => boolean]>([
  ['its owner is read', ['sync'], ({ key }) => key.endsWith('owner.json')],
  ['a segment is sealed', ['sync'], ({ method, key }) => method === 'PUT' && key.startsWith(LOG)],
  ['the log is pulled', ['log', 'pull'], ({ method, key }) => method === 'GET' && key === ''],
  ['a company is restored', ['restore'], ({ key }) => key.includes('000000001.ndjson')],
  ['the doctor looks', ['doctor'], ({ key }) => key.includes('.doctor-')],
  ['its state is shown', ['log', 'status'], ({ key }) => key === ''],
  ['the log is given back', ['sync', '--json'], givenBack()],
])('Ctrl-C ends a command within seconds if the store hangs while %s', async (_, args, isMeant) => {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 12), settings)
  await first.sync()
  first.world.update(first.world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  const host = args[0] === 'sync' || args[0] === 'doctor' ? first : await anotherHost(first)
  const done = await interrupted(args, host.environment, hang(s3, isMeant))
  s3.gate = async () => {}
  // Its work was done before.
  await expectEnd(done, args[1] === '--json' ? 0 : 130)
  // An owner that could not say that it ended is silent by then.
  s3.now = () => new Date(Date.now() + 3_600_000)
  expect(await first.sync(['--wait', '90'])).toMatchObject({ status: 'ok' })
})

const LAKE_URL = { LAKE_URL: 's3://lake/bi' }

test.each<
  [
    what: string,
    args: readonly string[],
    lake: Environment,
    isMeant: () => (request: S3Request) => boolean,
    ends: string,
  ]
>([
  ['gives the log back', ['sync', '--json'], {}, givenBack, '"status":"ok"'],
  ['gives the log back', ['rebuild'], {}, givenBack, 'Published'],
  ['gives the log back', ['restore'], {}, givenBack, 'ublished'],
  ['gives the log back', ['log', 'pull'], {}, givenBack, 'This disk has the whole log'],
  ['gives the log back', ['log', 'push'], {}, givenBack, 'Everything was there already'],
  ['gives the log back', ['sync', '--plan'], {}, givenBack, 'Nothing was changed.'],
  [
    'publishes the lake',
    ['sync'],
    LAKE_URL,
    () =>
      ({ key }) =>
        key.startsWith('bi/'),
    'did not answer for 4 s',
  ],
  [
    'publishes the lake',
    ['rebuild'],
    LAKE_URL,
    () =>
      ({ method, key }) =>
        method === 'PUT' && key.startsWith('bi/'),
    'did not answer for 4 s',
  ],
])(
  'a command that %s to a store that hangs ends within seconds of its last line: %s',
  async (_, args, lake, isMeant, ends) => {
    const { s3, settings } = await startSharedLog()
    const first = await startCompany(notices(1, 12), settings)
    await first.sync()
    first.world.update(first.world.ids()[0] as string, { edital: { objeto: 'Outro' } })
    const hung = hang(s3, isMeant())
    const environment = { ...first.environment, ...lake }
    await expectEndAfterReport(args, environment, hung, ends)
    s3.gate = async () => {}
    s3.now = () => new Date(Date.now() + 3_600_000)
    expect(await first.sync(['--wait', '90'])).toMatchObject({ status: 'ok' })
    if (lake.LAKE_URL) expect((await runShared(['lake', 'publish'], environment)).code).toBe(0)
  },
)

type CatalogHangs = (request: CatalogRequest) => boolean
const HANGING: [what: string, isMeant: CatalogHangs][] = [
  ['asked for its configuration', ({ path }) => path === 'config'],
  ['asked for a table', ({ path }) => path.includes('/tables/')],
  ['sent a commit', ({ path }) => path.endsWith('/commit')],
]

test.each(HANGING)(
  'a sync ends within seconds of its last line if the catalog hangs when it is %s',
  async (_, isMeant) => {
    const { s3, environment, catalog, world, syncHere, lake } = await startRemoteWithCatalog()
    await syncHere()
    world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
    const why = `The catalog at ${catalog.uri} did not answer for 4 s`
    await expectEndAfterReport(['sync'], environment, hang(catalog, isMeant), why)
    const snapshot = await latestLocal(environment)
    expect(latestOf(s3).snapshot).not.toBe(snapshot)
    catalog.gate = async () => {}
    await syncHere()
    expect(latestOf(s3)).toMatchObject({ snapshot: await latestLocal(environment), pending: null })
    expect(await lake('verify')).toMatchObject({ code: 0 })
  },
)

test.each(HANGING)('Ctrl-C ends a publish if the catalog hangs when it is %s', async (_, isMeant) => {
  const { environment, catalog, lake } = await startRemoteWithCatalog()
  await runShared(['sync'], { ...environment, LAKE_URL: '' })
  await expectEnd(await interrupted(['lake', 'publish'], environment, hang(catalog, isMeant)))
  catalog.gate = async () => {}
  expect((await lake('publish')).code).toBe(0)
  expect(await lake('verify')).toMatchObject({ code: 0 })
})

test.each<[args: readonly string[], isMeant: (request: S3Request) => boolean]>([
  [['lake', 'publish'], ({ method, key }) => method === 'PUT' && key.startsWith(LAKE)],
  [['lake', 'publish'], ({ key }) => key.endsWith('latest.json')],
  [['lake', 'status'], ({ key }) => key.endsWith('latest.json')],
  [['lake', 'verify'], ({ method, key }) => method === 'GET' && key === ''],
  [['lake', 'vacuum'], ({ method, key }) => method === 'GET' && key === ''],
  [['doctor'], ({ key }) => key.endsWith('latest.json')],
])('SIGTERM ends %s within seconds if the store hangs', async (args, isMeant) => {
  const { s3, environment, sync } = await startRemote()
  if (args[1] !== 'publish') await sync()
  else await runShared(['sync'], { ...environment, LAKE_URL: '' })
  const done = await interrupted(args, environment, hang(s3, isMeant), 'SIGTERM')
  await expectEnd(done)
  s3.gate = async () => {}
  expect((await runShared(['lake', 'publish'], environment)).code).toBe(0)
})
