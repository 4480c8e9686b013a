import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, rename, rm, rmdir, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { KeyStore } from '#src/server/keys.ts'
import { notices } from '#test/support/notices.ts'
import { type Environment, surroundings } from '#test/support/project.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'

const PATH = '/api/v1/editais'
const MAIN = join(import.meta.dirname, '../../../src/cli/main.js')

async function startServed() {
  const company = await startSynced(notices(1, 2))
  const { environment } = company
  const dataDir = environment.DATA_DIR as string
  const served = await serveApi(environment)
  return {
    ...served,
    ...placesOf(dataDir),
    environment,
    key: served.keys.acme as string,
    other: served.store.create('acme', 'other', new Date()),
  }
}

function placesOf(dataDir: string) {
  return { dataDir, file: join(dataDir, 'api_keys.sqlite'), waiting: join(dataDir, 'api_keys.revoked') }
}

/** A data directory with one key, which no process has open. */
async function makeKeys() {
  const { environment } = await startCompany(notices(1, 1))
  const dataDir = environment.DATA_DIR as string
  const store = KeyStore.open(dataDir, 5000)
  const key = store.create('acme', 'ERP', new Date())
  store.close()
  return { ...placesOf(dataDir), environment, key, prefix: key.slice(0, 12) }
}

/** Another process's lock on the file, until it is released or the test ends. */
function holdFile(path: string, pragma = ''): { release: () => void } {
  const db = new DatabaseSync(path)
  db.exec(`${pragma}; BEGIN EXCLUSIVE; SELECT count(*) FROM api_keys`)
  const release = () => void (db.isOpen && db.close())
  onTestFinished(release)
  return { release }
}

const revoke = (environment: Environment, prefix: string) =>
  runShared(['keys', 'revoke', prefix], environment)

async function listed(environment: Environment): Promise<{ prefix: string; state: string }[]> {
  return JSON.parse((await runShared(['keys', 'list', '--json'], environment)).stdout)
}

test('a revoked key is refused at once even if another process locks the file, and recorded later', async () => {
  const { ask, environment, key, other, file, waiting } = await startServed()
  const prefix = key.slice(0, 12)
  const held = holdFile(file)
  const { code, stdout } = await revoke(environment, key)
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: `${prefix} (acme, test) is refused from now on, but the key file cannot be changed (another process holds a lock on it). The revocation is kept in api_keys.revoked, until a server or command can write it to the key file.\n`,
  })
  expect((await ask(PATH, { key })).status).toBe(401)
  expect((await ask(PATH, { key: other })).status).toBe(200)
  expect(await readdir(waiting)).toEqual([prefix])
  expect((await stat(waiting)).mode & 0o777).toBe(0o700)
  expect((await listed(environment)).map(({ state }) => state)).toEqual(['revoked', 'valid'])
  // A second time: the key is already refused, and its revocation still waits.
  expect(await revoke(environment, prefix)).toMatchObject({ code: 0, stdout: stdout })

  held.release()
  await expect
    .poll(
      async () => {
        expect((await ask(PATH, { key })).status).toBe(401)
        return await readdir(waiting)
      },
      { timeout: 15_000 },
    )
    .toEqual([])
  const db = new DatabaseSync(file, { readOnly: true })
  expect(
    db.prepare('SELECT count(*) AS n FROM api_keys WHERE prefix = ? AND revoked_at IS NOT NULL').get(prefix),
  ).toEqual({ n: 1 })
  db.close()
  expect((await ask(PATH, { key, from: '127.0.0.2' })).status).toBe(401)
  expect(await revoke(environment, prefix)).toMatchObject({ code: 2 })
})

test('a revoked key is refused at once even if not a byte can be written', async () => {
  const { ask, environment, key, other, waiting } = await startServed()
  const child = spawn(
    '/bin/sh',
    ['-c', 'ulimit -f 0; exec "$@"', 'sh', process.execPath, MAIN, 'keys', 'revoke', key.slice(0, 12)],
    {
      cwd: environment.DATA_DIR,
      env: { ...surroundings(), ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  const said: string[] = []
  child.stdout.on('data', text => void said.push(String(text)))
  child.stderr.on('data', text => void said.push(String(text)))
  const [code] = await once(child, 'close')
  expect({ code, said: said.join('') }).toEqual({
    code: 0,
    said: expect.stringMatching(/is refused from now on, but .* \(the disk is full or failing/),
  })
  expect((await ask(PATH, { key })).status).toBe(401)
  expect((await ask(PATH, { key: other })).status).toBe(200)
  await expect.poll(() => readdir(waiting), { timeout: 15_000 }).toEqual([])
  expect((await ask(PATH, { key })).status).toBe(401)
})

test('a revocation that cannot be recorded reports that the key still works', async () => {
  const { ask, environment, key, file, waiting } = await startServed()
  await rm(waiting, { recursive: true, force: true })
  await writeFile(waiting, '')
  const held = holdFile(file)
  const failed = await revoke(environment, key)
  expect(failed).toMatchObject({ code: 1, stdout: '' })
  expect(failed.stderr).toContain(`${key.slice(0, 12)} STILL WORKS: neither ${file} (another`)
  expect(failed.stderr).toContain('is not a directory')
  expect(failed.stderr).toContain('stop the server')
  expect(failed.stderr).not.toContain(key)
  expect((await ask(PATH, { key })).status).toBe(200)
  held.release()
  expect(await revoke(environment, key)).toMatchObject({ code: 0, stdout: /is refused from now on\.\n$/ })
  expect((await ask(PATH, { key })).status).toBe(401)
})

test('a key can be revoked even if its file cannot be read, and stays revoked when the file is back', async () => {
  const { ask, environment, key, other, file, waiting } = await startServed()
  await rename(file, `${file}.aside`)
  await mkdir(file)
  // Without a readable file no key is accepted.
  expect((await ask(PATH, { key })).status).toBe(503)
  const { code, stdout } = await revoke(environment, key)
  expect(code).toBe(0)
  expect(stdout).toContain(`${key.slice(0, 12)} is refused from now on, but`)
  expect(stdout).toContain('(this user cannot open it)')
  expect(stdout).toContain('Whether this key exists could not be checked')
  expect(await readdir(waiting)).toEqual([key.slice(0, 12)])
  for (const one of [key, other]) expect((await ask(PATH, { key: one })).status).toBe(503)

  await rmdir(file)
  await rename(`${file}.aside`, file)
  expect((await ask(PATH, { key })).status).toBe(401)
  expect((await ask(PATH, { key: other })).status).toBe(200)
  await expect.poll(() => readdir(waiting), { timeout: 15_000 }).toEqual([])
  expect((await ask(PATH, { key })).status).toBe(401)
})

test('a revocation does not wait for a locked file, and is not lost', async () => {
  const { environment, prefix, file, waiting } = await makeKeys()
  const held = holdFile(file, 'PRAGMA locking_mode = EXCLUSIVE')
  expect(await revoke(environment, prefix)).toMatchObject({ code: 0, stdout: /refused from now on, but/ })
  held.release()
  // One recorded but not removed, as after a kill; one of a key that only a backup has; and a file that is no key.
  const [crashed, unknown] = ['edk_0badcafe', 'edk_00000000']
  for (const name of [crashed, unknown, 'notes.txt']) await writeFile(join(waiting, name as string), '')
  const db = new DatabaseSync(file)
  db.prepare(
    "INSERT INTO api_keys (hash, prefix, company, description, created_at, revoked_at) VALUES (x'00', ?, 'acme', 'x', '2026', '2026')",
  ).run(crashed as string)
  db.close()
  expect((await listed(environment)).map(({ state }) => state)).toEqual(['revoked', 'revoked'])
  expect((await readdir(waiting)).sort()).toEqual([unknown, crashed, prefix, 'notes.txt'].sort())

  expect(await runShared(['keys', 'create', '--description', 'CRM'], environment)).toMatchObject({ code: 0 })
  expect((await readdir(waiting)).sort()).toEqual([unknown, 'notes.txt'])
  expect((await listed(environment)).map(({ state }) => state)).toEqual(['revoked', 'revoked', 'valid'])
})

test('an invalid key prefix never names a file', async () => {
  const { environment, dataDir, waiting } = await makeKeys()
  const before = await readdir(dataDir)
  for (const wrong of ['..', '../../etc/passwd', 'edk_../../x', 'edk_1234567', '', 'edk_ABCDEF01']) {
    expect(await revoke(environment, wrong), wrong).toMatchObject({ code: 2, stdout: '' })
  }
  expect(await readdir(waiting)).toEqual([])
  expect(await readdir(dataDir)).toEqual(before)
})

test('a server that cannot read waiting revocations refuses all keys, and accepts them again when it can', async () => {
  const { ask, waiting, lines } = await startServed()
  expect((await ask(PATH)).status).toBe(200)
  await rm(waiting, { recursive: true, force: true })
  await symlink(waiting, waiting)
  expect((await ask(PATH)).status).toBe(503)
  expect(lines.join('')).toContain('The API keys cannot be read')
  await rm(waiting)
  expect((await ask(PATH)).status).toBe(200)
})

test('keys can be listed and revoked even if no file can be created beside theirs', async () => {
  const { environment, prefix, file, waiting } = await makeKeys()
  // As in a read-only directory: SQLite cannot create the files that its locks need.
  await mkdir(`${file}-shm`)
  const before = await readFile(file)
  expect(await listed(environment)).toMatchObject([{ prefix, state: 'valid' }])
  expect(await revoke(environment, prefix)).toMatchObject({ code: 0, stdout: /refused from now on, but/ })
  expect(await listed(environment)).toMatchObject([{ prefix, state: 'revoked' }])
  expect(await readFile(file)).toEqual(before)
  expect(await readdir(waiting)).toEqual([prefix])
  const created = await runShared(['keys', 'create', '--description', 'CRM'], environment)
  expect(created).toMatchObject({ code: 2, stdout: '' })
  expect(created.stderr).toBe(`${file}-shm is not a file, so it is not opened. Remove it.\n`)
})
