import { expect, test } from 'vitest'
import { replaceObject } from '#test/support/forged.ts'
import { bytesAt, LAKE, latestOf, startRemote } from '#test/support/remote_lake.ts'
import type { S3Server } from '#tools/s3_server.ts'

/** What somebody who can write the bucket of LAKE_URL puts there. */
type Forgery = readonly [what: string, forge: (s3: S3Server) => void, refusal: RegExp]

const text = (s3: S3Server, key: string) => bytesAt(s3, key).toString()
const put = (s3: S3Server, key: string, content: string | Buffer) =>
  replaceObject(s3, `${LAKE}/${key}`, content)
/** Replaces a part of an object, which must be there. */
function edit(s3: S3Server, key: string, from: string | RegExp, to: string): void {
  const before = text(s3, key)
  const after = before.replace(from, to)
  if (after === before) throw new Error(`${key} has no ${from}`)
  put(s3, key, after)
}
const metadataKey = (s3: S3Server) => `editais/metadata/v${latestOf(s3).iceberg?.editais}.metadata.json`
const commitKey = (s3: S3Server) =>
  `editais/_delta_log/${String(latestOf(s3).delta?.editais).padStart(20, '0')}.json`
const avroKey = (s3: S3Server, name: RegExp) =>
  [...s3.objects.keys()].find(key => name.test(key))?.slice(LAKE.length + 1) as string
const LIST = /editais\/metadata\/snap-/
const MANIFEST = /editais\/metadata\/[0-9a-f]{32}\.avro/
/** Bytes of an Avro file with a later part replaced. */
function editBytes(s3: S3Server, name: RegExp, change: (bytes: Buffer) => Buffer): void {
  const key = avroKey(s3, name)
  put(s3, key, change(Buffer.from(bytesAt(s3, key))))
}

const LATEST: readonly Forgery[] = [
  ['no JSON', s3 => put(s3, 'latest.json', '{'), /latest\.json is no description .*\(not JSON\)/],
  ['no text', s3 => put(s3, 'latest.json', Buffer.from([0xff, 0xfe])), /\(not UTF-8\)/],
  ['a list', s3 => put(s3, 'latest.json', '[]'), /\(another shape\)/],
  ['deep nesting', s3 => put(s3, 'latest.json', '['.repeat(100_000)), /\(nested too deeply\)/],
  ['two megabytes', s3 => put(s3, 'latest.json', ' '.repeat(2e6)), /has more than 1,048,576 bytes/],
  [
    'a key twice',
    s3 => edit(s3, 'latest.json', '{', '{"company": "other",'),
    /\(a key twice, or a number that is too long\)/,
  ],
  ['NaN', s3 => edit(s3, 'latest.json', /"data_version": \d+/, '"data_version": NaN'), /\(not JSON\)/],
  [
    'an endless number',
    s3 => edit(s3, 'latest.json', /"data_version": \d+/, '"data_version": 1e999'),
    /\(a key twice, or a number that is too long\)/,
  ],
  [
    'a negative number',
    s3 => edit(s3, 'latest.json', /"data_version": \d+/, '"data_version": -1'),
    /\(wrong: data_version\)/,
  ],
  [
    'another company',
    s3 => edit(s3, 'latest.json', '"company": "acme"', '"company": "other"'),
    /latest\.json is that of another company/,
  ],
  [
    'a snapshot that leads elsewhere',
    s3 => edit(s3, 'latest.json', /"snapshot": "[^"]+"/, '"snapshot": "../../../other/lake/x"'),
    /\(wrong: snapshot\)/,
  ],
  [
    'a pending snapshot with an absolute path',
    s3 =>
      edit(
        s3,
        'latest.json',
        '"pending": null',
        '"pending": {"snapshot": "/etc", "at": "2026-01-01T00:00:00Z"}',
      ),
    /\(wrong: pending\.snapshot\)/,
  ],
  [
    'the end of time',
    s3 => edit(s3, 'latest.json', /"published_at": "[^"]+"/, '"published_at": "+275760-09-13T00:00:00.000Z"'),
    /\(wrong: published_at\)/,
  ],
  [
    'a table that leads to another company',
    s3 => edit(s3, 'latest.json', '"editais":', '"../../other/lake/editais":'),
    /\(wrong: iceberg\.\.\.\?\.\.\?other\?lake\?editais\)/,
  ],
]

const TABLES: readonly Forgery[] = [
  [
    'no metadata',
    s3 => put(s3, metadataKey(s3), 'null'),
    /is no metadata of an Iceberg table \(another shape\)/,
  ],
  [
    'metadata with snapshots that are none',
    s3 => edit(s3, metadataKey(s3), /"snapshots":\[/, '"snapshots":[7,'),
    /\(wrong: snapshots\.0\)/,
  ],
  [
    'a list of another company',
    s3 =>
      edit(
        s3,
        metadataKey(s3),
        /lake\/editais\/metadata\/snap-/g,
        'lake/../../other/lake/editais/metadata/snap-',
      ),
    /names s3:\S+other\S+, which is no part of it/,
  ],
  [
    'a list on the disk',
    s3 => edit(s3, metadataKey(s3), /"manifest-list":"[^"]+"/g, '"manifest-list":"/etc/passwd"'),
    /names \/etc\/passwd, which is no part of it/,
  ],
  [
    'a list that is no Avro',
    s3 => put(s3, avroKey(s3, LIST), 'Obj'),
    /is no part of this table \(cut short\)/,
  ],
  [
    'a manifest with another schema',
    s3 =>
      editBytes(s3, MANIFEST, bytes =>
        Buffer.from(bytes.toString('latin1').replace('"status"', '"STATUS"'), 'latin1'),
      ),
    /is no part of this table \(another schema\)/,
  ],
  [
    'a compressed manifest',
    s3 =>
      editBytes(s3, MANIFEST, bytes =>
        Buffer.from(
          bytes.toString('latin1').replace('\x14avro.codec\x08null', '\x14avro.codec\x08zero'),
          'latin1',
        ),
      ),
    /is no part of this table \((compressed|another schema)\)/,
  ],
  [
    'a file of another table',
    s3 =>
      editBytes(s3, MANIFEST, bytes =>
        Buffer.from(bytes.toString('latin1').replaceAll('/editais/data/', '/alertas/data/'), 'latin1'),
      ),
    /names s3:\S+alertas\S+, which is no part of it/,
  ],
  [
    'a shorter manifest',
    s3 => editBytes(s3, MANIFEST, bytes => bytes.subarray(0, bytes.length - 20)),
    /\((cut short|damaged|fewer records than it claims)\)/,
  ],
  ['no commit', s3 => put(s3, commitKey(s3), 'no'), /is no commit of this table \(not JSON\)/],
  [
    'a commit with a file of another company',
    s3 => edit(s3, commitKey(s3), /files\\":\[\\"data/, 'files\\":[\\"../../../other/lake/editais/data'),
    /is no commit of this table \(wrong: files\.0\)/,
  ],
]

test.each([
  ['latest.json', LATEST],
  ['the tables', TABLES],
] as const)(
  'forged parts of %s stop the publish with one sentence, and nothing else',
  async (_, forgeries) => {
    const { s3, environment, sync, lake } = await startRemote({ LAKE_FORMATS: 'iceberg,delta' })
    await sync()
    const good = new Map(s3.objects)
    for (const [what, forge, refusal] of forgeries) {
      forge(s3)
      const forged = new Map(s3.objects)
      const { code, stderr } = await lake('publish')
      expect([what, code, stderr]).toEqual([what, 1, expect.stringMatching(refusal)])
      expect(stderr).toMatch(/s3:\/\/lake\/bi\/acme\/lake/)
      expect(stderr).toMatch(/Restore it from a version or a backup of the bucket|Stop that program/)
      expect(stderr).not.toContain('    at ')
      expect([...s3.objects]).toEqual([...forged])
      s3.objects.clear()
      for (const [key, stored] of good) s3.objects.set(key, stored)
    }
    expect((await lake('publish')).stdout).toMatch(/^Already published/)
    // A run goes on, and says so.
    forgeries[0]?.[1](s3)
    expect(await sync()).toMatchObject({ status: 'ok' })
    expect(environment.LAKE_URL).toBeDefined()
  },
)
