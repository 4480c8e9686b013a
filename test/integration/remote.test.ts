import { expect, test } from 'vitest'
import { latestLocal, latestOf, PUBLISHED, startRemote } from '#test/support/remote_lake.ts'

// What a store, a catalog and their faults can do to it is in the slow tests beside this one.
test('a run publishes every table and mart to the object store in both formats, and lake verify finds them whole', async () => {
  const { s3, environment, sync, lake } = await startRemote({ LAKE_FORMATS: 'iceberg,delta' })
  expect(await sync()).toMatchObject({ status: 'ok', loaded: 12 })
  const latest = latestOf(s3)
  expect(latest).toMatchObject({ snapshot: await latestLocal(environment), pending: null })
  for (const versions of [latest.iceberg, latest.delta])
    expect(Object.keys(versions ?? {}).sort()).toEqual([...PUBLISHED].sort())
  expect(await lake('verify')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Everything is there.'),
  })
  const lost = [...s3.objects.keys()].find(key => /\/items\/data\/.*\.parquet$/.test(key)) as string
  s3.objects.delete(lost)
  expect(await lake('verify')).toMatchObject({ code: 1 })
})
