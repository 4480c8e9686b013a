import { execFile } from 'node:child_process'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { readMetabaseSettings, readSettings } from '#config/settings.ts'
import { PROJECT, readCompose } from '#test/support/docker.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const run = promisify(execFile)
const { services } = await readCompose()
const PROFILE = ['s3-key', 's3', 'iceberg-catalog', 'trino'] as const

test('only the profile lake starts the S3 server, the catalog and Trino', () => {
  const ofTheProfile = Object.entries(services).filter(([, { profiles }]) => profiles?.includes('lake'))
  expect(ofTheProfile.map(([name]) => name)).toEqual(PROFILE)
  for (const name of PROFILE) expect(services[name].profiles).toEqual(['lake'])
  const { environment, depends_on: waitsFor } = services.worker
  // Settings of the lake come only from .env.
  expect(Object.keys(environment ?? {}).filter(name => /^(?:LAKE|S3|ICEBERG)_/.test(name))).toEqual([])
  expect(Object.keys(waitsFor ?? {})).toEqual(['redis'])
})

test('the documented lines of .env name these services, the bucket and the key', async () => {
  const page = await readFile(join(PROJECT, 'docs/operating/object-store.md'), 'utf8')
  const [, block = ''] = /\n\n((?: {4}.*\n)*? {4}LAKE_URL=s3:\/\/lake.*\n(?: {4}.*\n)*)/.exec(page) ?? []
  const lines = block.trim().split(/\n\s*/)
  const settings = Object.fromEntries(lines.map(line => line.split('=', 2) as [string, string]))
  expect(settings.COMPOSE_PROFILES).toBe('lake')
  const { remoteLake } = readSettings({ ...settings, COMPANY: 'acme' })
  expect(remoteLake).toMatchObject({
    bucket: 'lake',
    endpoint: 'http://s3:7070',
    credentialsFile: '/run/s3/credentials',
    catalog: { uri: 'http://iceberg-catalog:8181', namespace: ['editais_acme'], login: null },
  })
  expect(services.s3.command?.[0]).toContain('--port :7070')
  expect(services['iceberg-catalog'].environment).toMatchObject({ CATALOG_S3_ENDPOINT: remoteLake?.endpoint })
  const metabase = await readFile(join(PROJECT, 'docs/operating/metabase.md'), 'utf8')
  const [, url = ''] = /--trino (\S+)/.exec(metabase) ?? []
  const more = { METABASE_URL: 'http://metabase:3000', COMPANY: 'acme' }
  const { trino } = readMetabaseSettings({ ...settings, ...more }, { trino: url })
  expect(trino).toMatchObject({ host: 'trino', port: 8080, catalog: 'lake', schema: 'editais_acme' })
})

test('the key of the S3 server is created once, at random, in both forms, and so is the bucket', async () => {
  const directory = await temporaryDirectory()
  const make = async () => {
    const { entrypoint = [], command = [] } = services['s3-key']
    const [shell = '', ...words] = [...entrypoint, ...command].map(word => placed(word, directory))
    expect(await run(shell, words)).toEqual({ stdout: '', stderr: '' })
    const texts = ['id', 'secret', 'credentials'].map(name => readFile(join(directory, 'key', name), 'utf8'))
    return await Promise.all(texts)
  }
  await mkdir(join(directory, 'key'))
  await mkdir(join(directory, 'objects'))
  const [id, secret, credentials] = await make()
  expect(id).toMatch(/^[0-9a-f]{20}$/)
  expect(secret).toMatch(/^[0-9a-f]{64}$/)
  expect(credentials).toBe(`[default]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`)
  expect(await make()).toEqual([id, secret, credentials])
  for (const name of ['id', 'secret', 'credentials'])
    expect((await stat(join(directory, 'key', name))).mode & 0o777).toBe(0o444)
  expect((await stat(join(directory, 'objects/lake'))).mode & 0o777).toBe(0o777)

  // The server gets it in variables of its process alone.
  await writeFile(
    join(directory, 'versitygw'),
    '#!/bin/sh\necho "$ROOT_ACCESS_KEY_ID $ROOT_SECRET_ACCESS_KEY $*"\n',
    { mode: 0o755 },
  )
  const { entrypoint = [], command = [] } = services.s3
  const [shell = '', ...words] = [...entrypoint, ...command].map(word => placed(word, directory))
  const env = { PATH: `${directory}:/usr/bin:/bin` }
  const { stdout } = await run(shell, words, { env })
  expect(stdout).toMatch(new RegExp(`^${id} ${secret} .*--health /health .*posix ${directory}/objects\n$`))
  expect(JSON.stringify(services.s3.healthcheck)).toContain(':7070/health')
})

test('the catalog keeps its tables on a volume of its user, over one connection', () => {
  const { environment, volumes, tmpfs } = services['iceberg-catalog']
  expect(volumes).toContain('iceberg-catalog:/home/iceberg')
  expect(environment).toMatchObject({
    CATALOG_URI: 'jdbc:sqlite:file:/home/iceberg/catalog.db',
    CATALOG_CLIENTS: '1',
    AWS_SHARED_CREDENTIALS_FILE: '/run/s3/credentials',
  })
  // SQLite's library is loaded from there.
  expect(tmpfs).toEqual([expect.stringMatching(/^\/tmp:exec,/)])
})

test('Trino reads that catalog and that store, with the key in a file, and may change nothing', async () => {
  const { volumes, environment, tmpfs } = services.trino
  expect(volumes).toEqual(['./config/trino:/etc/trino:ro', 's3-key:/run/s3:ro'])
  expect(environment).toMatchObject({ AWS_SHARED_CREDENTIALS_FILE: '/run/s3/credentials' })
  const lake = await properties('catalog/lake.properties')
  expect(lake).toMatchObject({
    'connector.name': 'iceberg',
    'iceberg.catalog.type': 'rest',
    'iceberg.rest-catalog.uri': 'http://iceberg-catalog:8181',
    's3.endpoint': 'http://s3:7070',
    's3.path-style-access': 'true',
  })
  expect(Object.keys(lake).filter(name => /key|secret/.test(name))).toEqual([])
  expect(await properties('access-control.properties')).toEqual({ 'access-control.name': 'read-only' })
  // Its data directory is in memory, and belongs to its user.
  const { 'node.data-dir': data } = await properties('node.properties')
  expect(tmpfs).toContain(`${data}:size=64m,uid=1000,gid=1000`)
  const { 'http-server.http.port': port } = await properties('config.properties')
  expect(services.trino.ports).toEqual([`127.0.0.1:8081:${port}`])
})

async function properties(name: string): Promise<Record<string, string>> {
  const text = await readFile(join(PROJECT, 'config/trino', name), 'utf8')
  const lines = text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(lines.map(line => line.split('=', 2) as [string, string]))
}

/** With directories in place of the volumes. */
function placed(word: string, directory: string): string {
  return word
    .replaceAll('/run/s3', join(directory, 'key'))
    .replaceAll(/(?<= )\/s3\b/g, join(directory, 'objects'))
}
