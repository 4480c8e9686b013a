import { existsSync } from 'node:fs'
import { cp, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import type { Finding } from '#src/extras/extra.ts'
import type { Checkpoint } from '#src/extras/shared_log/checkpoints.ts'
import {
  checkpointIn,
  fileOf,
  replaceObject,
  rewriteCheckpoint,
  rewriteWarehouse,
} from '#test/support/forged.ts'
import { holdAfter } from '#test/support/held.ts'
import { anotherHost, LOG, segmentsIn, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, startCommand } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { companyAt, type SyncedCompany, startCompany } from '#test/support/synced.ts'
import { dataTables, warehouseTables } from '#test/support/tables.ts'
import { asked, expectTruth } from '#test/support/truth.ts'
import type { S3Server, Stored } from '#tools/s3_server.ts'

/** A company whose log is in an object store, on a host with an empty disk; and more such hosts. */
async function startHosts(more: Environment = {}) {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 12), { ...settings, ...more })
  return { s3, first, another: () => anotherHost(first) }
}

const rawOf = (environment: Environment) => join(companyDirectory(environment), 'raw')

const CHECKPOINT = /\/checkpoints\/\d+-/

/** The tables of a host's warehouse, without what only tells one warehouse from another. */
async function tablesOf({ environment }: SyncedCompany) {
  return dataTables(await warehouseTables(environment))
}

test('hosts take turns: each continues from what the others sealed, and requests nothing again', async () => {
  const { s3, first, another } = await startHosts()
  const second = await another()
  expect(await first.sync()).toMatchObject({ status: 'ok', loaded: 12 })
  const [id = ''] = first.world.ids()

  expect(await second.sync()).toMatchObject({ status: 'ok', loaded: 0, unchanged: 12 })
  expect(asked(second, 'analysis')).toEqual([])
  await expectTruth(second)

  first.world.update(id, { edital: { objeto: 'Outro objeto' } })
  expect(await second.sync()).toMatchObject({ loaded: 1 })
  expect(asked(second, 'analysis')).toEqual([id])
  first.world.remove(first.world.ids()[3] as string)
  expect(await first.sync()).toMatchObject({ loaded: 0, gone: 0, tombstoned: 1 })
  await second.sync()
  await expectTruth(first)
  await expectTruth(second)

  await first.sync()
  await second.sync()
  await first.sync()
  await second.sync()
  expect(await tablesOf(first)).toEqual(await tablesOf(second))
  expect((await readdir(rawOf(second.environment))).length).toBe(segmentsIn(s3).length)
})

test('a lost answer to a seal is recognized, and a refused one is repeated', async () => {
  const { s3, first } = await startHosts()
  let faults = 0
  s3.fault = ({ method, key }) => {
    if (method !== 'PUT' || !key.startsWith(LOG) || faults >= 2) return null
    faults += 1
    return faults === 1 ? 409 : 'lose'
  }
  expect(await first.sync()).toMatchObject({ status: 'ok', loaded: 12 })
  expect(faults).toBe(2)
  expect((await readdir(rawOf(first.environment))).length).toBe(segmentsIn(s3).length)
})

test('a store that is down ends the run with one sentence, and nothing was applied that is not sealed', async () => {
  const { s3, first, another } = await startHosts()
  s3.fault = ({ key }) => (key.startsWith(LOG) && key.includes('000000001') ? 403 : null)
  const { code, stderr } = await runShared(['sync'], first.environment)
  expect(code).toBe(1)
  expect(stderr).toContain('acme: The object store at http://127.0.0.1')
  expect(stderr).toContain('The raw log is in that store (LOG_URL), so this cannot continue without it.')
  expect(stderr).toContain('Check the keys')
  expect(stderr).not.toContain('    at ')
  s3.fault = () => null
  expect(await (await another()).sync()).toMatchObject({ status: 'ok', loaded: 12 })
  expect(await first.sync()).toMatchObject({ status: 'ok', loaded: 0 })
  await expectTruth(first)
})

test('a worker that falls silent is taken over; when it wakes up, it ends and has changed nothing', async () => {
  const { s3, first, another } = await startHosts({ API_CONCURRENCY: '1' })
  const second = await another()
  const [id = ''] = first.world.ids()
  await first.sync()
  first.world.update(id, { edital: { objeto: 'Outro objeto' } })
  const held = holdAfter(first.sandbox, 'analysis', { passing: 0, waiting: 1 })
  const { child, ended } = startCommand(['sync'], first.environment, first.environment.DATA_DIR ?? '')
  await held.reached
  child.kill('SIGSTOP')

  const refused = await runShared(['sync', '--wait', '0'], second.environment)
  expect(refused.code).toBe(4)
  expect(refused.stderr).toMatch(/^The raw log of acme is held by sync --company acme \(process \d+ on /m)

  s3.now = () => new Date(Date.now() + 3_600_000)
  held.release()
  // Another command takes over first, and seals nothing.
  const before = segmentsIn(s3).length
  expect((await runShared(['restore'], second.environment)).code).toBe(0)
  let sealedFirst = 0
  first.sandbox.faults.onRequest = ({ kind }) => {
    if (kind === 'list') sealedFirst ||= segmentsIn(s3).length - before
  }
  expect(await second.sync()).toMatchObject({ status: 'ok', loaded: 1 })
  // Before it requests anything, whoever was taken over can no longer seal.
  expect(sealedFirst).toBe(1)
  first.sandbox.faults.onRequest = undefined
  const sealed = segmentsIn(s3)
  child.kill('SIGCONT')
  const { code, stderr } = await ended
  expect(code).toBe(4)
  expect(stderr).toMatch(/acme: another worker (took over|has sealed segment)/)
  expect(stderr).not.toContain('    at ')
  expect(segmentsIn(s3)).toEqual(sealed)

  expect(await first.sync()).toMatchObject({ status: 'ok', loaded: 0 })
  await expectTruth(first)
  await expectTruth(second)
})

test('an empty disk is restored from a checkpoint and the segments after it', async () => {
  const { s3, first, another } = await startHosts()
  for (let run = 0; run < 11; run += 1) await first.syncHere()
  const checkpoints = [...s3.objects.keys()].filter(key => CHECKPOINT.test(key))
  expect(checkpoints).toHaveLength(1)
  first.world.update(first.world.ids()[1] as string, { edital: { objeto: 'Depois' } })
  await first.sync()

  const second = await another()
  s3.requests.length = 0
  const { code, stdout } = await runShared(['restore'], second.environment)
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^Published /)])
  const got = s3.requests.filter(({ method, key }) => method === 'GET' && key.startsWith(`${LOG}/`))
  expect(got.length).toBeLessThan(8)
  expect(existsSync(join(rawOf(second.environment), '000001.ndjson.zst'))).toBe(false)
  await expectTruth(second)
  expect(await second.sync()).toMatchObject({ status: 'ok', loaded: 0, unchanged: 12 })
  await first.sync()
  const restored = await tablesOf(second)

  expect((await runShared(['rebuild'], second.environment)).code).toBe(0)
  expect(await tablesOf(second)).toEqual(restored)
  expect(existsSync(join(rawOf(second.environment), '000001.ndjson.zst'))).toBe(true)
})

test('checkpoints of a log that was replaced by a backup do not take the place of those of this one', async () => {
  const { s3, first } = await startHosts()
  for (let run = 0; run < 11; run += 1) await first.syncHere()
  const [own = '', ...others] = [...s3.objects.keys()].filter(key => CHECKPOINT.test(key))
  expect(others).toEqual([])
  const checkpoint = JSON.parse(String(s3.objects.get(own)?.bytes)) as Checkpoint
  s3.objects.delete(own)
  for (const segment of [901, 902, 903])
    replaceObject(s3, own.replace(/\d{9}/, `000000${segment}`), JSON.stringify({ ...checkpoint, segment }))
  const made = () => s3.requests.filter(({ method, key }) => method === 'PUT' && CHECKPOINT.test(key)).length
  s3.requests.length = 0
  for (let run = 0; run < 3; run += 1) await first.syncHere()
  expect(made()).toBe(1)
  expect([...s3.objects.keys()].filter(key => /checkpoints\/0000000\d\d-/.test(key))).toHaveLength(1)
  expect([...s3.objects.keys()].filter(key => /checkpoints\/0000009\d\d-/.test(key))).toEqual([])
})

const SPOILED: readonly (readonly [what: string, spoil: (checkpoint: Checkpoint, s3: S3Server) => void])[] = [
  ['it is of another log', (_, s3) => rewriteCheckpoint(s3, { segment_sha256: '0'.repeat(64) })],
  ['a file is missing', ({ rows: [row] }, s3) => s3.objects.delete(fileOf(row?.sha256 ?? ''))],
  ['its warehouse is no database', (_, s3) => rewriteWarehouse(s3, zstdCompressSync('no'), 2)],
  ['its warehouse is not packed', (_, s3) => rewriteWarehouse(s3, Buffer.from('no'), 2)],
  [
    'its warehouse is larger than it should be',
    ({ warehouse }, s3) => rewriteCheckpoint(s3, { warehouse: { ...warehouse, unpacked_bytes: 9 } }),
  ],
]

test('a checkpoint that is spoiled is passed over, and the log restores everything', async () => {
  const { s3, first, another } = await startHosts()
  for (let run = 0; run < 11; run += 1) await first.syncHere()
  const good = new Map(s3.objects)
  for (const [what, spoil] of SPOILED) {
    spoil(checkpointIn(s3), s3)
    const second = await another()
    expect(await second.sync(), what).toMatchObject({ status: 'ok', loaded: 0, unchanged: 12 })
    expect(existsSync(join(rawOf(second.environment), '000001.ndjson.zst')), what).toBe(true)
    await expectTruth(second)
    s3.objects.clear()
    for (const [key, stored] of good) s3.objects.set(key, stored)
  }
})

test('a company without analyses is restored, too; a disk with the end of a log needs LOG_URL', async () => {
  const { settings } = await startSharedLog()
  const company = await startCompany([], settings)
  for (let run = 0; run < 10; run += 1) await company.syncHere()
  const second = await anotherHost(company)
  expect((await runShared(['restore'], second.environment)).code).toBe(0)
  // Under another name, the store does not have what a rebuild would need.
  const renamed = { ...second.environment, COMPANY: 'beta' }
  await cp(companyDirectory(second.environment), companyDirectory(renamed), { recursive: true })
  expect((await runShared(['publish'], renamed)).stderr).toContain('lacks segment 1')
  expect(existsSync(join(rawOf(renamed), 'base.json'))).toBe(true)
  expect(await second.sync()).toMatchObject({ status: 'ok', listed: 0 })
  expect(existsSync(join(rawOf(second.environment), 'base.json'))).toBe(true)

  const { LOG_URL: _, ...alone } = second.environment
  const refused = await runShared(['sync'], alone as Environment)
  expect(refused.code).toBe(2)
  expect(refused.stderr).toMatch(/The first \d+ segments of the raw log of acme are not on this disk/)
})

test('what a disk has lost of the log is copied again', async () => {
  const { first } = await startHosts()
  for (let run = 0; run < 4; run += 1) await first.sync(['--full'])
  const raw = rawOf(first.environment)
  const names = (await readdir(raw)).sort()
  for (const name of names.slice(1, 3)) await rm(join(raw, name))
  await first.sync(['--full'])
  expect((await readdir(raw)).sort().slice(0, names.length)).toEqual(names)
  expect((await runShared(['rebuild'], first.environment)).code).toBe(0)
  await expectTruth(first)
})

test('the doctor compares the log with the store, checks checkpoints, and lets writers race', async () => {
  const { s3, first } = await startHosts()
  await first.sync()
  const doctor = async () => {
    const { code, stdout } = await runShared(['doctor', '--json'], first.environment)
    const { findings } = JSON.parse(stdout) as { findings: readonly Finding[] }
    return { code, shared: findings.filter(({ check }) => ['shared log', 'store'].includes(check)) }
  }
  const well = await doctor()
  expect([well.code, well.shared.map(({ status }) => status)]).toEqual([0, ['ok', 'ok', 'ok']])
  expect(well.shared[0]?.what).toMatch(/^\d+ segments? without a gap, equal to those on this disk$/)

  const [key = ''] = segmentsIn(s3)
  const stored = s3.objects.get(key) as Stored
  s3.objects.set(key, { ...stored, metadata: { 'x-amz-meta-sha256': '0'.repeat(64) } })
  const differs = await doctor()
  expect(differs.code).toBe(1)
  expect(differs.shared[0]?.what).toMatch(
    /have different segments 1: one of them was written to without the other/,
  )
  s3.objects.set(key, stored)
  s3.knowsIfMatch = false
  expect((await doctor()).shared.at(-1)?.what).toMatch(
    /^let \d+ of 16 racing writers replace one version of an object/,
  )
  s3.knowsIfMatch = true
  s3.fault = ({ method, isConditional, key }) =>
    method === 'PUT' && isConditional && s3.objects.has(key) ? 412 : null
  expect((await doctor()).shared.at(-1)?.what).toMatch(
    /^let nobody replace an object by the ETag that it gave/,
  )
  s3.fault = () => null
  s3.isStrict = false
  expect((await doctor()).shared.at(-1)?.what).toMatch(/^let \d+ of 16 racing writers create one object/)
})

test('the doctor checks the store before the first run, and on a host that has nothing yet', async () => {
  const { s3, first, another } = await startHosts()
  const root = companyDirectory(first.environment)
  const before = await runShared(['doctor'], first.environment)
  expect(before).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('✓ shared log 0 segments without a gap'),
  })
  expect(before.stdout).toMatch(/! disk +\S+ does not exist, so only the object store was checked\./)
  expect(before.stdout).toContain('Of 16 racing writers, the object store lets one create an object')
  expect([existsSync(root), s3.objects.size]).toEqual([false, 0])
  s3.isStrict = false
  expect(await runShared(['doctor'], first.environment)).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('let 16 of 16 racing writers create one object'),
  })
  s3.isStrict = true
  for (const _ of [1, 2]) await first.sync()
  const segments = segmentsIn(s3)
  const { environment } = await another()
  expect((await runShared(['doctor'], environment)).stdout).toContain(
    `${segments.length} segments without a gap`,
  )
  s3.objects.delete(segments[0] as string)
  expect(await runShared(['doctor', '--quick'], environment)).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/✗ shared log s3:\S+ lacks segment 1, but has later ones/),
  })
})

test('the doctor finds a checkpoint whose file is shorter than it was written', async () => {
  const { s3, first } = await startHosts()
  for (let run = 0; run < 11; run += 1) await first.syncHere()
  const key = [...s3.objects.keys()].find(name => name.includes('checkpoints/files')) as string
  const stored = s3.objects.get(key) as Stored
  s3.objects.set(key, { ...stored, bytes: stored.bytes.subarray(0, stored.bytes.length >> 1) })
  const { code, stdout } = await runShared(['doctor'], first.environment)
  expect(code).toBe(0)
  expect(stdout).toMatch(
    /! shared log s3:\/\/lake\/shared\/acme\/checkpoints\/\S+ has 1 file with other content: a restore uses another one/,
  )
  s3.objects.set(key, stored)
  expect((await runShared(['doctor'], first.environment)).stdout).toMatch(
    /✓ shared log 1 checkpoint; the newest has/,
  )
})

test('a log that began on a disk moves to the store with one command, and back', async () => {
  const { s3, first } = await startHosts()
  const { LOG_URL: _, ...alone } = first.environment
  const local = companyAt(first.sandbox, first.world, alone as Environment)
  await local.sync()
  const refused = await runShared(['sync'], first.environment)
  expect(refused.code).toBe(1)
  expect(refused.stderr).toContain('editais log push --company acme')
  const typed = await runShared(['log', 'push', '--company', 'typo'], first.environment)
  expect(typed).toMatchObject({ code: 2, stderr: expect.stringContaining('has no segments') })

  expect((await runShared(['log', 'push'], first.environment)).stdout).toBe('Copied 1 segment.\n')
  expect((await runShared(['log', 'push'], first.environment)).stdout).toBe('Everything was there already.\n')
  expect(await first.sync()).toMatchObject({ status: 'ok', loaded: 0 })
  const { stdout } = await runShared(['log', 'status'], first.environment)
  expect(stdout).toMatch(/Place +s3:\/\/lake\/shared\/acme\/log\nLog +\d+ segments, \d+ kB\n/)
  expect(stdout).toContain('Owner      nobody now')

  await rm(companyDirectory(first.environment), { recursive: true })
  expect((await runShared(['log', 'pull'], first.environment)).stdout).toMatch(
    /^This disk has the whole log: /,
  )
  s3.close()
  expect(await local.sync()).toMatchObject({ status: 'ok', loaded: 0, unchanged: 12 })
})

test('a mistyped company leaves nothing, here or in the store', async () => {
  const { s3, first } = await startHosts()
  await first.sync()
  const { DATA_DIR: dataDir = '' } = first.environment
  for (const command of [['restore'], ['rebuild'], ['log', 'pull']]) {
    const { code, stderr } = await runShared([...command, '--company', 'typo'], first.environment)
    expect([code, stderr]).toEqual([
      2,
      `Neither ${dataDir} nor s3://lake/shared has data of company typo. Check COMPANY, DATA_DIR and LOG_URL.\n`,
    ])
  }
  expect(existsSync(join(dataDir, 'typo'))).toBe(false)
  expect([...s3.objects.keys()].filter(key => key.includes('typo'))).toEqual([])
})

test('a disk that was written to without the store is refused, and nothing changes', async () => {
  const { first, s3 } = await startHosts()
  await first.sync()
  const { LOG_URL: _, ...alone } = first.environment
  await companyAt(first.sandbox, first.world, alone as Environment).sync(['--full'])
  const before = new Map(s3.objects)
  const { code, stderr } = await runShared(['sync'], first.environment)
  expect(code).toBe(1)
  expect(stderr).toMatch(/lacks segment \d+, which .*raw has/)
  before.delete('shared/acme/owner.json')
  for (const [key, { bytes }] of before) expect(s3.objects.get(key)?.bytes).toEqual(bytes)
})
