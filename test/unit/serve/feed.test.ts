import { expect, test } from 'vitest'
import { createLogger } from '#src/lib/log.ts'
import { Feed } from '#src/server/feed/feed.ts'

test('a lake that was published before anything was received has no changes yet: 503, not a failure', async () => {
  const feed = new Feed({
    root: '/nonexistent',
    shared: null,
    log: createLogger('silent', {}),
    bringUp: () => Promise.reject(new Error('nothing is indexed')),
  })
  const snapshot = {
    name: 'empty',
    appliedSegment: 0,
    versions: { notice: [], analysis: [] },
    timeZone: 'UTC',
    madeMs: 0,
  }
  await expect(feed.ready(() => snapshot)).rejects.toMatchObject({
    status: 503,
    message: 'There are no changes of this company yet. Try again after its first run.',
  })
  await feed.close()
})
