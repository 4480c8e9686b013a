import { cp, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { TableMetadata } from '#src/extras/object_store/iceberg/metadata.ts'
import { companyDirectory, type Environment } from '#test/support/project.ts'
import {
  bytesAt,
  expectSameFiles,
  filesOfList,
  latestLocal,
  latestOf,
  loseAnswers,
  ROOT,
  startRemote,
} from '#test/support/remote_lake.ts'
import { runShared } from '#test/support/shared.ts'
import { BUCKET, type S3Server, type Stored } from '#tools/s3_server.ts'

const metadataOf = (s3: S3Server, table: string, version = latestOf(s3).iceberg?.[table]) =>
  JSON.parse(bytesAt(s3, `${table}/metadata/v${version}.metadata.json`).toString()) as TableMetadata

/** The files of a table's snapshot, as a reader finds them. */
async function filesOf(s3: S3Server, table: string, snapshotId: number) {
  const snapshot = metadataOf(s3, table).snapshots.find(one => one['snapshot-id'] === snapshotId)
  return await filesOfList(s3, snapshot?.['manifest-list'] ?? '')
}

/** By the tag of the snapshot. */
async function expectEqual(s3: S3Server, environment: Environment, snapshot: string): Promise<void> {
  await expectSameFiles(s3, { environment, snapshot }, table => {
    const id = metadataOf(s3, table).refs[`s-${snapshot}`]?.['snapshot-id'] ?? 0
    return filesOf(s3, table, id)
  })
}

test('a lost answer, a conflict and a slow-down change nothing', async () => {
  const { s3, environment, syncHere } = await startRemote()
  loseAnswers(s3)
  await syncHere()
  expect(latestOf(s3).pending).toBeNull()
  await expectEqual(s3, environment, await latestLocal(environment))
  expect(Object.values(latestOf(s3).iceberg ?? {}).every(version => version === 1)).toBe(true)
})

test('a commit by another program stops the publish with one message, and the run goes on', async () => {
  const { s3, environment, syncHere, world, lake } = await startRemote()
  await syncHere()
  const metadata = metadataOf(s3, 'editais')
  const [snapshot] = metadata.snapshots
  const foreign = {
    ...metadata,
    snapshots: [...metadata.snapshots, { ...snapshot, 'snapshot-id': 7, summary: {} }],
  }
  const key = 'bi/acme/lake/editais/metadata/v2.metadata.json'
  s3.objects.set(key, { bytes: Buffer.from(JSON.stringify(foreign)), tag: '"x"', modified: new Date() })
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  expect(await syncHere()).toMatchObject({ status: 'ok' })
  expect((await runShared(['status'], environment)).stdout).toContain(
    `Another program committed snapshot 7 to ${ROOT}/acme/lake/editais. Stop that program, and roll the table back.`,
  )
  expect(await lake('verify')).toMatchObject({ code: 1, stderr: expect.stringContaining('Another program') })
})

test('an older copy of the lake does not replace newer data', async () => {
  const { s3, lake, syncHere } = await startRemote()
  await syncHere()
  const stored = s3.objects.get('bi/acme/lake/latest.json')
  const newer = { ...latestOf(s3), snapshot: '29990101T000000Z-000099', data_version: 99 }
  s3.objects.set('bi/acme/lake/latest.json', {
    ...(stored as Stored),
    bytes: Buffer.from(JSON.stringify(newer)),
  })
  expect(await lake('publish')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /has version 99 of acme's data .*, but this lake has version \d+: this lake is an older copy/,
    ),
  })
})

test.each([
  ['was restored from a backup', true],
  ['is another one', false],
])(
  'a log that %s replaces what was published by one command, which the refusal and the doctor name',
  async (_, isBackup) => {
    const { s3, environment, lake, syncHere, world } = await startRemote()
    const { DATA_DIR = '' } = environment
    const directory = companyDirectory(environment)
    await syncHere()
    const backup = join(DATA_DIR, 'backup')
    await cp(join(directory, 'raw'), backup, { recursive: true })
    for (const objeto of ['Primeiro', 'Segundo']) {
      world.update(world.ids()[0] as string, { edital: { objeto } })
      await syncHere()
    }
    const published = latestOf(s3)
    expect(published.log).toBeTruthy()

    await rm(directory, { recursive: true })
    if (isBackup) {
      await mkdir(directory)
      await rename(backup, join(directory, 'raw'))
      expect(await runShared(['rebuild'], environment)).toMatchObject({ code: 0 })
    } else await rm(backup, { recursive: true })
    // Each run is good, and each publish is refused.
    for (const times of [1, 2]) {
      expect(await syncHere(), `${times}`).toMatchObject({ status: 'ok' })
      expect(latestOf(s3).snapshot).toBe(published.snapshot)
    }
    const command = 'editais lake publish --new-log --company acme'
    const refusal = isBackup ? /its log was restored from a backup/ : /has data of another log of acme/
    const refused = await lake('publish')
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(refusal)])
    expect(refused.stderr).toContain(command)
    expect((await runShared(['status'], environment)).stdout).toContain(command)
    const doctor = await runShared(['doctor'], environment)
    expect([doctor.code, doctor.stdout]).toEqual([1, expect.stringContaining(command)])

    expect(await lake('publish', '--new-log')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^Published /),
    })
    expect(await lake('verify')).toMatchObject({ code: 0 })
    world.update(world.ids()[1] as string, { edital: { objeto: 'Terceiro' } })
    expect(await syncHere()).toMatchObject({ status: 'ok' })
    expect(latestOf(s3)).toMatchObject({ snapshot: await latestLocal(environment), pending: null })
    await expectEqual(s3, environment, await latestLocal(environment))
  },
)

test('the doctor finds a store that is behind, cannot be reached, or lets two racing writers win', async () => {
  const { s3, environment, syncHere, world } = await startRemote()
  const doctor = async (...args: string[]) => await runShared(['doctor', ...args], environment)
  await syncHere()
  const snapshot = await latestLocal(environment)
  const before = new Map(s3.objects)
  expect(await doctor()).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      new RegExp(`✓ store +The object store has the snapshot ${snapshot}\n✓ store +Of 16 racing writers, `),
    ),
  })
  expect(new Set(s3.objects.keys())).toEqual(new Set(before.keys()))
  s3.fault = () => 403
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  await syncHere()
  expect(await doctor('--quick')).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/✗ store +The object store cannot be checked: .* Check the keys/),
  })
  s3.fault = () => null
  expect(await doctor('--quick')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      new RegExp(`! store .* has ${snapshot}; the local lake has ${await latestLocal(environment)}\\.`),
    ),
  })
  s3.isStrict = false
  expect(await doctor()).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/✗ store +s3:\/\/\S+ let 16 of 16 racing writers create one object/),
  })
})

test('with an interval, snapshots wait for it, and are then published even if nothing is new', async () => {
  const { s3, environment, syncHere, world, lake } = await startRemote({ LAKE_PUBLISH_INTERVAL: '1h' })
  await syncHere()
  const first = latestOf(s3).snapshot
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  await syncHere()
  expect(latestOf(s3).snapshot).toBe(first)
  expect((await runShared(['status'], environment)).stdout).toMatch(
    new RegExp(`^Store {5}has ${first}\n {10}gets this one after 20.*Z \\(LAKE_PUBLISH_INTERVAL\\)$`, 'm'),
  )
  const path = join(companyDirectory(environment), 'remote.json')
  const state = JSON.parse(await readFile(path, 'utf8')) as { published_at: string; due_at: string }
  const hourBefore = (text: string) => new Date(Date.parse(text) - 3_600_000).toISOString()
  const { published_at, due_at } = state
  await writeFile(
    path,
    JSON.stringify({ ...state, published_at: hourBefore(published_at), due_at: hourBefore(due_at) }),
  )
  await syncHere()
  expect(latestOf(s3).snapshot).toBe(await latestLocal(environment))
  world.update(world.ids()[0] as string, { edital: { objeto: 'Mais um' } })
  await syncHere()
  // A manual publish does not wait.
  expect(await lake('publish')).toMatchObject({ code: 0, stdout: expect.stringContaining('Published') })
  expect(latestOf(s3).snapshot).toBe(await latestLocal(environment))
})

test('objects that are lost or cut short in the store are found', async () => {
  const { s3, lake, syncHere } = await startRemote()
  await syncHere()
  const keys = [...s3.objects.keys()].filter(key => key.includes('/editais/data/')).sort()
  s3.objects.delete(keys[0] as string)
  const cut = s3.objects.get(keys[1] as string)
  s3.objects.set(keys[1] as string, { ...(cut as Stored), bytes: (cut as Stored).bytes.subarray(1) })
  const { code, stdout } = await lake('verify')
  expect(code).toBe(1)
  expect(stdout).toContain(`editais: s3://${BUCKET}/${keys[0]} is gone.`)
  expect(stdout).toMatch(
    new RegExp(`editais: s3://${BUCKET}/${keys[1]} has [0-9,]+ bytes instead of [0-9,]+\\.`),
  )
})
