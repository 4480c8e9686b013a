import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type Manifest, readLatestName, readManifest, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { startChild } from '#src/lib/child.ts'
import { type IndexOrder, updateIndex } from '#src/server/feed/indexer.ts'
import { listVersionFiles } from '#src/server/snapshot.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, temporaryDirectory } from '#test/support/project.ts'
import { startCompany } from '#test/support/synced.ts'

const INDEX = join(import.meta.dirname, '../../../src/server/feed/indexer.ts')
const KILLS = 12
const LIVES_MS = 700

function everythingIn(path: string): unknown {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    return ['events', 'changes', 'notices', 'segments'].map(table =>
      db.prepare(`SELECT * FROM ${table}`).all(),
    )
  } finally {
    db.close()
  }
}

test('an indexer that is killed again and again leaves the index that one makes in peace', async () => {
  const company = await startCompany(notices(1, 2500))
  const { world, environment } = company
  await company.syncHere()
  for (const hour of [1, 2]) {
    for (let n = 1; n <= 2500; n += 3)
      world.update(idOf(n), {
        edital: { objeto: `Objeto ${hour}` },
        updatedAt: new Date(Date.UTC(2026, 10, 20, hour)),
      })
    await company.syncHere()
  }
  const root = companyDirectory(environment)
  const directory = join(
    snapshotsDirectory(join(root, 'lake')),
    (await readLatestName(join(root, 'lake'))) as string,
  )
  const manifest = (await readManifest(directory)) as Manifest
  const [killed, whole] = [await temporaryDirectory(), await temporaryDirectory()].map(place => ({
    raw: join(root, 'raw'),
    shared: null,
    path: join(place, 'feed.sqlite'),
    upTo: manifest.applied_segment,
    versions: listVersionFiles(manifest, directory),
  })) as [IndexOrder, IndexOrder]
  for (let kill = 0; kill < KILLS; kill += 1) {
    const child = startChild(INDEX)
    child.send(killed)
    await sleep((LIVES_MS * (kill + 1)) / KILLS)
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  await updateIndex(killed)
  await updateIndex(whole)
  expect(everythingIn(killed.path)).toEqual(everythingIn(whole.path))
})
