import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { hashContent } from '#src/lib/hash.ts'
import {
  alterWarehouse,
  checkpointIn,
  checkpointKey,
  fileOf,
  replaceObject,
  rewriteCheckpoint,
  rewriteWarehouse,
} from '#test/support/forged.ts'
import { anotherHost, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'
import { expectTruth } from '#test/support/truth.ts'
import type { S3Server } from '#tools/s3_server.ts'

/** A company with a checkpoint in the store, and hosts with empty disks. */
async function startWithCheckpoint() {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 12), settings)
  for (let run = 0; run < 11; run += 1) await first.syncHere()
  return { s3, first, another: () => anotherHost(first) }
}

/** Otherwise a checkpoint took the place of the log's beginning. */
function hasWholeLog(environment: Environment): boolean {
  return existsSync(join(companyDirectory(environment), 'raw/000001.ndjson.zst'))
}

test('a checkpoint whose table is a view cannot read a file of the worker', async () => {
  const { s3, another } = await startWithCheckpoint()
  const secret = join(await temporaryDirectory(), 'secret')
  await writeFile(secret, 'the worker alone may read this')
  await alterWarehouse(
    s3,
    `ALTER TABLE schema_drift RENAME TO old_drift;
     CREATE VIEW schema_drift AS SELECT * REPLACE ((SELECT content FROM read_text('${secret}')) AS sample) FROM (
       FROM old_drift UNION ALL BY NAME SELECT 'x' AS path, 'new_field' AS kind)`,
  )
  const host = await another()
  expect(await host.sync(['--full'])).toMatchObject({ status: 'ok' })
  expect(JSON.stringify(await host.query('SELECT * FROM schema_drift'))).not.toContain('the worker alone')
  expect(hasWholeLog(host.environment)).toBe(true)
  await expectTruth(host)
})

type Forgery = readonly [what: string, forge: (s3: S3Server) => void | Promise<void>, refusal: RegExp]

const text = (s3: S3Server) => String(s3.objects.get(checkpointKey(s3))?.bytes)
const firstRow = (s3: S3Server) => checkpointIn(s3).rows[0] as ReturnType<typeof checkpointIn>['rows'][number]
const withRow = (s3: S3Server, changes: object) =>
  rewriteCheckpoint(s3, { rows: [{ ...firstRow(s3), ...changes }, ...checkpointIn(s3).rows.slice(1)] })

const FORGERIES: readonly Forgery[] = [
  ['no JSON', s3 => replaceObject(s3, checkpointKey(s3), '{'), /is no checkpoint \(not JSON\)/],
  ['deep JSON', s3 => replaceObject(s3, checkpointKey(s3), '[{"a":'.repeat(50_000)), /\(nested too deeply\)/],
  [
    'a key twice',
    s3 => replaceObject(s3, checkpointKey(s3), text(s3).replace('{', '{"segment":1,')),
    /\(a key twice/,
  ],
  [
    'another company',
    s3 => rewriteCheckpoint(s3, { company: 'other' }),
    /is that of another company or segment/,
  ],
  ['another segment', s3 => rewriteCheckpoint(s3, { segment: 1 }), /is that of another company or segment/],
  [
    'a warehouse that leads elsewhere',
    s3 => rewriteCheckpoint(s3, { warehouse_id: '../../../etc' }),
    /\(wrong: warehouse_id\)/,
  ],
  [
    'a hash that is a path',
    s3 => withRow(s3, { sha256: '../../other/owner.json' }),
    /\(wrong: rows\.0\.sha256\)/,
  ],
  ['a table that is a path', s3 => withRow(s3, { table_name: '/tmp' }), /\(wrong: rows\.0\.table_name\)/],
  ['a file without end', s3 => withRow(s3, { bytes: 1e15 }), /\(wrong: rows\.0\.bytes\)/],
  ['half a file', s3 => withRow(s3, { file: 1.5 }), /\(wrong: rows\.0\.file\)/],
  [
    'a file with other content',
    s3 => replaceObject(s3, fileOf(firstRow(s3).sha256), 'x'.repeat(firstRow(s3).bytes)),
    /has a file with other content/,
  ],
  [
    'a larger file',
    s3 => replaceObject(s3, fileOf(firstRow(s3).sha256), 'x'.repeat(firstRow(s3).bytes + 1)),
    /files\/[0-9a-f]{64} has more than [\d,]+ bytes/,
  ],
  [
    'a warehouse that unpacks to gigabytes',
    s3 => rewriteWarehouse(s3, zstdCompressSync(Buffer.alloc(2 ** 27)), 2 ** 40),
    /has a warehouse that cannot be unpacked/,
  ],
  [
    'a row that lists a file of another directory',
    s3 => alterWarehouse(s3, `UPDATE row_files SET table_name = '../../items' WHERE rowid = 0`),
    /has a warehouse that lists other files than the checkpoint/,
  ],
  [
    'a damaged warehouse',
    s3 => {
      const packed = s3.objects.get(fileOf(checkpointIn(s3).warehouse.sha256))?.bytes as Buffer
      const bytes = zstdDecompressSync(packed)
      for (let at = 12_288; at < bytes.length; at += 997) bytes[at] = (bytes[at] as number) ^ 0x5a
      rewriteWarehouse(s3, zstdCompressSync(bytes), bytes.length)
    },
    /has a warehouse that cannot be read/,
  ],
]

test('a forged checkpoint is named and not used: the log restores the company', async () => {
  const { s3, another } = await startWithCheckpoint()
  const good = new Map(s3.objects)
  for (const [what, forge, refusal] of FORGERIES) {
    await forge(s3)
    const { environment } = await another()
    const { code, stdout, stderr } = await runShared(['restore'], environment)
    expect([what, code, stderr]).toEqual([what, 0, expect.stringMatching(refusal)])
    expect(stderr).toContain(`acme: s3://lake/shared/acme/checkpoints/`)
    expect(stderr).toMatch(
      /The checkpoint before it, or the whole log, takes its place\. Delete it|Restore it/,
    )
    expect(stderr).not.toContain('    at ')
    expect([what, stdout, hasWholeLog(environment)]).toEqual([
      what,
      expect.stringMatching(/^Published /),
      true,
    ])
    s3.objects.clear()
    for (const [key, stored] of good) s3.objects.set(key, stored)
  }
  const host = await another()
  const { stderr } = await runShared(['restore'], host.environment)
  expect([stderr.includes('checkpoint of the first'), hasWholeLog(host.environment)]).toEqual([true, false])
  await expectTruth(host)
})

test('after three forged checkpoints, the log restores the company', async () => {
  const { s3, another } = await startWithCheckpoint()
  const [key, content] = [checkpointKey(s3), text(s3)]
  const forged = content.replace('"company":"acme"', '"company":"x"')
  // The good one is the last of five.
  for (const more of ['a', 'b', 'c', 'd']) replaceObject(s3, key.replace('.json', `${more}.json`), forged)
  const { environment } = await another()
  const { code, stderr } = await runShared(['restore'], environment)
  expect([code, stderr.match(/is that of another company or segment/g)?.length]).toEqual([0, 3])
  expect(hasWholeLog(environment)).toBe(true)
})

test('a forged owner of the log is waited for, and shown without what a terminal would obey', async () => {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 3), settings)
  await first.sync()
  const key = 'shared/acme/owner.json'
  const good = JSON.parse(String(s3.objects.get(key)?.bytes)) as { holder: object }
  const forged: readonly (readonly [content: string, code: number, refusal: RegExp])[] = [
    ['{', 4, /is held by another version of the program/],
    ['['.repeat(60_000), 4, /is held by another version of the program/],
    [JSON.stringify({ ...good, released: 'no' }), 4, /is held by another version of the program/],
    [
      JSON.stringify({
        ...good,
        released: false,
        holder: { ...good.holder, directory: 'x', what: '\u001b[2Jsync\n\u0007' },
      }),
      4,
      /is held by .{0,2}\[2Jsync/,
    ],
    [' '.repeat(70_000), 1, /owner\.json has more than 65,536 bytes/],
  ]
  for (const [content, expected, refusal] of forged) {
    replaceObject(s3, key, content)
    const { code, stderr } = await runShared(['sync', '--wait', '0'], first.environment)
    expect([code, stderr]).toEqual([expected, expect.stringMatching(refusal)])
    expect(stderr).not.toContain('    at ')
    expect(stderr).not.toContain('\u001b')
  }
  // Who is silent for long is taken over.
  replaceObject(s3, key, '{')
  s3.now = () => new Date(Date.now() + 3_600_000)
  expect(await first.sync()).toMatchObject({ status: 'ok' })
})

test('a segment that is not what was uploaded, and one that unpacks without end, stop the company with one sentence', async () => {
  const { s3, first, another } = await startWithCheckpoint()
  const keys = [...s3.objects.keys()].filter(key => key.includes('/log/')).sort()
  const [key = ''] = keys.slice(-1)
  const good = s3.objects.get(key) as NonNullable<ReturnType<typeof s3.objects.get>>
  s3.objects.set(key, { ...good, bytes: Buffer.concat([good.bytes, good.bytes]) })
  const damaged = await runShared(['sync'], (await another()).environment)
  expect([damaged.code, damaged.stderr]).toEqual([1, expect.stringMatching(/has a damaged segment \d+/)])

  const bomb = zstdCompressSync(Buffer.alloc(2 ** 30, ' '))
  s3.objects.set(key, { ...good, bytes: bomb, metadata: { 'x-amz-meta-sha256': hashContent(bomb) } })
  const { code, stderr } = await runShared(['sync'], (await another()).environment)
  expect([code, stderr]).toEqual([1, expect.stringMatching(/unpacks to more than/)])
  expect(stderr).not.toContain('    at ')
  s3.objects.set(key, good)
  await first.sync()
})
