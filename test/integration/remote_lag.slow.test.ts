import { chmod, rm } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { latestLocal, latestOf, startRemote } from '#test/support/remote_lake.ts'
import { runShared } from '#test/support/shared.ts'
import { writeCredentials } from '#tools/s3_server.ts'

/** A company whose newest snapshot the store refused. */
async function startBehind(settings: Record<string, string> = {}) {
  const started = await startRemote(settings)
  const { s3, world, sync, environment } = started
  await sync()
  const before = latestOf(s3).snapshot as string
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  s3.fault = ({ method, key }) => (method === 'PUT' && key.startsWith('bi/') ? 403 : null)
  await sync()
  s3.fault = () => null
  const newest = await latestLocal(environment)
  expect([latestOf(s3).snapshot, newest === before]).toEqual([before, false])
  return { ...started, before, newest }
}

test('lake status and verify name the snapshot that the store lacks and why, and exit with 3, until it is there', async () => {
  const { lake, before, newest } = await startBehind()
  const [shown, verified] = [await lake('status'), await lake('verify')]
  for (const { code, stdout } of [shown, verified]) {
    expect([code, stdout]).toEqual([3, expect.stringContaining(`has ${before}, and lacks ${newest}`)])
    expect(stdout).toMatch(
      /Error {5}of the last publish, 20\S+Z: The object store at \S+ did not write .*Check the keys/,
    )
  }
  expect(verified.stdout).not.toContain('Everything is there.')
  expect(JSON.parse((await lake('status', '--json')).stdout)).toMatchObject({
    local: newest,
    behind: expect.stringContaining(newest),
    last_error: { message: expect.stringContaining('Check the keys') },
  })
  expect(await lake('publish')).toMatchObject({ code: 0 })
  expect(await lake('status')).toMatchObject({ code: 0, stdout: expect.not.stringContaining('Error') })
  expect(await lake('verify')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Everything is there.'),
  })
})

test('what waits for LAKE_PUBLISH_INTERVAL is not behind, and a store that was emptied is', async () => {
  const { s3, world, sync, lake } = await startRemote({ LAKE_PUBLISH_INTERVAL: '1h' })
  await sync()
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  await sync()
  expect(await lake('status')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/goes there after \S+ \(LAKE_PUBLISH_INTERVAL\)/),
  })
  expect(await lake('verify')).toMatchObject({ code: 0 })
  for (const key of [...s3.objects.keys()]) s3.objects.delete(key)
  expect(await lake('status')).toMatchObject({
    code: 3,
    stdout: expect.stringContaining('has no snapshot, and'),
  })
})

test('lake status shows the error of the last publish if the store cannot be read, and damage counts more than age', async () => {
  const { s3, environment, lake, newest } = await startBehind()
  const keys = environment.S3_CREDENTIALS_FILE as string
  await chmod(keys, 0o600)
  await rm(keys)
  const { code, stdout, stderr } = await runShared(['lake', 'status'], environment)
  expect([code, stderr]).toEqual([1, expect.stringContaining(`S3_CREDENTIALS_FILE (${keys}) cannot be read`)])
  expect(stdout).toContain(`This disk ${newest}`)
  expect(stdout).toContain('Error     of the last publish')
  await writeCredentials(keys, 'AKIATESTTESTTEST')
  const [lost] = [...s3.objects.keys()].filter(key => key.includes('/editais/data/'))
  s3.objects.delete(lost as string)
  expect(await lake('verify')).toMatchObject({ code: 1, stdout: expect.stringContaining(`lacks ${newest}`) })
})
