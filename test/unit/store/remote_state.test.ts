import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isRemoteBehind, writeRemoteState } from '#src/extras/object_store/state.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const AT = '2026-11-22T12:00:00.000Z'

test.each([
  ['just published', '2026-11-22T12:30:00Z', false],
  ['an interval later', '2026-11-22T13:00:00Z', true],
  // Waiting until the time of the last publish would keep the store two days old.
  ['the clock was set back', '2026-11-20T12:00:00Z', true],
])('a newer snapshot is due or not: %s', async (_, now, isBehind) => {
  const directory = await temporaryDirectory()
  const paths = { lake: join(directory, 'lake'), remote: join(directory, 'remote.json') }
  await mkdir(paths.lake)
  await symlink(join('snapshots', 'newer'), join(paths.lake, 'latest'))
  const published = { tried_at: AT, snapshot: 'older', published_at: AT, due_at: AT }
  await writeRemoteState(paths.remote, {
    ...published,
    reading: null,
    pending: null,
    error: null,
    behind_since: null,
  })
  expect(await isRemoteBehind({ intervalMs: 3_600_000 }, paths, new Date(now))).toBe(isBehind)
})
