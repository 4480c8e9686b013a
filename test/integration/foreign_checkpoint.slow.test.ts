import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { hashContent } from '#src/lib/hash.ts'
import { alterWarehouse, replaceObject } from '#test/support/forged.ts'
import { anotherHost, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'
import { expectTruth } from '#test/support/truth.ts'

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
