import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, readlink, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { METABASE_DOCKERFILE, PROJECT, readCompose, readDockerfile } from '#test/support/docker.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const run = promisify(execFile)
const { services } = await readCompose()
const stages = await readDockerfile(METABASE_DOCKERFILE)
const image = stages.at(-1)?.instructions ?? []
const START = join(PROJECT, 'config/metabase/start.sh')
const DRIVER = join(PROJECT, 'config/metabase/driver.sh')
const JAR = 'duckdb.metabase-driver.jar'
const BYTES = 'a driver'
const SHA256 = createHash('sha256').update(BYTES).digest('hex')

test('Metabase sees one lake of the data, read-only, at the path used in views', async () => {
  expect(services.metabase.volumes?.[0]).toEqual({
    type: 'volume',
    source: 'data',
    target: '/data/default/lake',
    read_only: true,
    volume: { subpath: 'default/lake' },
  })
  const ofAcme = await readCompose({ COMPANY: 'acme' })
  expect(ofAcme.services.metabase.volumes?.[0]).toMatchObject({
    target: '/data/acme/lake',
    volume: { subpath: 'acme/lake' },
  })
  expect(services.metabase.volumes?.slice(1)).toEqual([
    'metabase-password:/run/metabase:ro',
    'metabase-spill:/spill',
  ])
})

test('the lake is created before it is mounted, even before the first run; an existing one is kept', async () => {
  const { depends_on: waitsFor } = services.metabase
  expect(waitsFor?.['metabase-lake']?.condition).toBe('service_completed_successfully')
  const root = await temporaryDirectory()
  const [shell = '', ...words] = services['metabase-lake'].command ?? []
  const make = async (umask: string) => {
    const args = words.map(word => word.replaceAll('/data', root))
    await run('/bin/sh', ['-c', `umask ${umask}; exec "$@"`, 'sh', shell, ...args], {
      env: { PATH: '/usr/bin:/bin', ...services['metabase-lake'].environment },
    })
    return (await stat(join(root, 'default/lake'))).mode & 0o777
  }
  expect(await make('022')).toBe(0o755)
  expect(await make('077')).toBe(0o755)
})

test('it writes only in /tmp and /spill: there it finds our driver and what it unpacks, and nothing that was left there', async () => {
  const [tmpfs = ''] = services.metabase.tmpfs ?? []
  expect(tmpfs).toMatch(/^\/tmp:(?:.*,)?exec\b.*\bsize=/)
  expect(environmentOf('MB_PLUGINS_DIR')).toBe('/tmp/plugins')
  const { start, drivers, plugins, spill } = await startable()
  await mkdir(join(spill, 'acme-1'))
  // Started twice, as after a crash: /tmp of a container outlives its process.
  for (const _ of ['first', 'again']) {
    // A jar that someone left there would be loaded.
    await mkdir(plugins, { recursive: true })
    await writeFile(join(plugins, 'foreign.jar'), '')
    expect(await start({})).toBe('-XX:MaxRAMPercentage=40 -jar metabase.jar password=\n')
  }
  expect(await readdir(plugins)).toEqual([JAR])
  expect(await readdir(spill)).toEqual([])
  expect(await readlink(join(plugins, JAR))).toContain(drivers)
  const copied = image.filter(({ keyword }) => keyword === 'COPY').map(({ words }) => words)
  expect(copied).toContainEqual([`/downloads/${JAR}`, 'drivers/'])
  expect(copied).toContainEqual(['start.sh', './'])
  expect(image.find(({ keyword }) => keyword === 'CMD')?.words).toEqual(['sh', 'start.sh'])
})

test('its own database is Postgres, with a password from a file', async () => {
  const { environment: own = {} } = services.metabase
  const { environment: database = {} } = services['metabase-db']
  expect(own.MB_DB_TYPE).toBe('postgres')
  expect(own.MB_DB_HOST).toBe('metabase-db')
  expect([own.MB_DB_DBNAME, own.MB_DB_USER]).toEqual([database.POSTGRES_DB, database.POSTGRES_USER])
  expect(own.MB_DB_PASS_FILE).toBe(database.POSTGRES_PASSWORD_FILE)
  expect(services.metabase.depends_on?.['metabase-db']?.condition).toBe('service_healthy')

  const directory = await temporaryDirectory()
  const [shell = '', ...words] = [
    ...(services['metabase-password'].entrypoint ?? []),
    ...(services['metabase-password'].command ?? []),
  ].map(word => word.replaceAll('/run/metabase', directory))
  const make = async () => {
    expect(await run(shell, words)).toEqual({ stdout: '', stderr: '' })
    return await readFile(join(directory, 'password'), 'utf8')
  }
  const password = await make()
  expect(password).toMatch(/^[0-9a-f]{64}$/)
  expect(await make()).toBe(password)
  expect((await stat(join(directory, 'password'))).mode & 0o777).toBe(0o444)

  const { start } = await startable()
  const file = join(directory, 'password')
  expect(await start({ MB_DB_PASS_FILE: file })).toMatch(new RegExp(`password=${password}\n$`))
  await expect(start({ MB_DB_PASS_FILE: join(directory, 'gone') })).rejects.toThrow('gone')
})

test('its program comes from the publisher’s image, which Docker checks by its digest', () => {
  const from = image.find(({ words }) => words[0] === '/app/metabase.jar')
  expect(from?.flags).toEqual({ from: 'metabase' })
  const downloads = stages.flatMap(({ instructions }) =>
    instructions.filter(({ text }) => /curl -/.test(text)),
  )
  // DuckDB checks the signature of its extension itself.
  expect(downloads.map(({ text }) => /https:\S+/.exec(text)?.[0])).toEqual([
    expect.stringContaining('https://extensions.duckdb.org/'),
  ])
})

test("a driver is kept if it matches the given checksum, or else GitHub's", async () => {
  const given = await driver({ expected: SHA256, release: null })
  expect(given).toEqual({ code: 0, output: '', kept: [JAR] })
  const assets = [
    { name: 'another.jar', digest: `sha256:${'0'.repeat(64)}` },
    { name: JAR, digest: `sha256:${SHA256}` },
  ]
  expect(await driver({ release: { assets } })).toEqual({ code: 0, output: '', kept: [JAR] })
})

test.for([
  [
    'another one is given',
    { expected: 'ab'.repeat(32), release: null },
    /not (?:ab)+ \(from DRIVER_SHA256\)/,
  ],
  [
    'GitHub shows another one',
    { release: asset(`sha256:${'cd'.repeat(32)}`) },
    /not (?:cd)+ \(from GitHub\)/,
  ],
  [
    'GitHub shows none',
    { release: asset(null) },
    /build again with --build-arg DRIVER_SHA256=[0-9a-f]{64}\./,
  ],
  ['GitHub does not know the file', { release: { assets: [] } }, /--build-arg DRIVER_SHA256/],
  ['GitHub does not answer', { release: null }, /--build-arg DRIVER_SHA256/],
] as const)('a driver with an unproven checksum is refused with a reason: %s', async ([, request, why]) => {
  const { code, output, kept } = await driver(request)
  expect([code, kept]).toEqual([1, []])
  expect(output).toMatch(why)
  expect(output).toContain(SHA256)
})

function asset(digest: string | null) {
  return { assets: [{ name: JAR, digest }] }
}

type Request = { readonly expected?: string; readonly release: object | null }

/** Runs driver.sh with a curl that returns the driver and GitHub's release; a null release makes it fail. */
async function driver({ expected = '', release }: Request) {
  const root = await temporaryDirectory()
  const work = join(root, 'work')
  await mkdir(work)
  if (release) await writeFile(join(root, 'release.json'), JSON.stringify(release))
  await writeFile(
    join(root, 'curl'),
    `#!/bin/sh
case "$*" in
*api.github.com*/tags/1.2.3) cat ${root}/release.json ;;
*/download/1.2.3/*) printf '${BYTES}' >"$2" ;;
*) exit 1 ;;
esac
`,
    { mode: 0o755 },
  )
  const options = { cwd: work, env: { PATH: `${root}:/usr/bin:/bin` } }
  const { code, output } = await run('/bin/sh', [DRIVER, '1.2.3', expected], options).then(
    ({ stdout, stderr }) => ({ code: 0, output: `${stdout}${stderr}` }),
    error => ({ code: error.code as number, output: `${error.stdout}${error.stderr}` }),
  )
  return { code, output: output.replace(/^cat: .*\n/, ''), kept: await readdir(work) }
}

/** Prepares start.sh with a java that prints its arguments. */
async function startable() {
  const root = await temporaryDirectory()
  const drivers = join(root, 'drivers')
  const plugins = join(root, 'tmp/plugins')
  const spill = join(root, 'spill')
  await mkdir(spill)
  await mkdir(drivers)
  await writeFile(join(drivers, JAR), '')
  await writeFile(join(root, 'java'), '#!/bin/sh\necho "$@" "password=$MB_DB_PASS"\n', { mode: 0o755 })
  const script = join(root, 'start.sh')
  await writeFile(script, (await readFile(START, 'utf8')).replaceAll('/home/metabase/drivers', drivers))
  const start = async (environment: Record<string, string>) =>
    (
      await run('/bin/sh', [script], {
        env: {
          PATH: `${root}:/usr/bin:/bin`,
          MB_PLUGINS_DIR: plugins,
          SPILL_DIRECTORY: spill,
          ...environment,
        },
      })
    ).stdout
  return { start, drivers, plugins, spill }
}

function environmentOf(name: string): string | undefined {
  const words = image.find(({ keyword }) => keyword === 'ENV')?.words ?? []
  return words.find(word => word.startsWith(`${name}=`))?.slice(name.length + 1)
}
