import { cp, mkdir } from 'node:fs/promises'
import { slugOf } from '../company/api.ts'
import { createKey, type Place, pathsOf } from '../company/place.ts'
import { type Figure, figure, megabytes, most } from '../frame/figures.ts'
import type { Bench } from '../frame/situation.ts'
import { startService, untilServed } from '../processes/service.ts'
import { watchMemory } from '../processes/watch.ts'
import { MOST_MEGABYTES } from './attacked.ts'

/** Many companies prepared at once, and the time of a restart afterwards. Each has a copy of one company's lake. */
export async function measureCrowd(bench: Bench, companies: number, from: Place): Promise<Figure[]> {
  const dataDir = await bench.folder('crowd')
  const keys: string[] = []
  for (let n = 0; n < companies; n += 1) {
    const slug = slugOf(n)
    const place = { directory: bench.directory, env: { DATA_DIR: dataDir, COMPANY: slug } }
    const { root, lake } = pathsOf(place, slug)
    await mkdir(root, { mode: 0o711 })
    await cp(pathsOf(from).lake, lake, { recursive: true, verbatimSymlinks: true })
    keys.push(await createKey(place))
  }
  const place = { directory: bench.directory, env: { DATA_DIR: dataDir } }
  const { seconds, memory } = await prepareAll(place, keys)
  const again = await prepareAll(place, keys)
  const name = `${companies} companies`
  const [all, own] = [megabytes(memory.peakBytes), megabytes(memory.ownBytes)]
  return [
    figure('crowd_builders', `${name}: builders at once`, 0, memory.children, most(2)),
    figure('crowd_first_seconds', `${name}: the first served after, s`, 1, Math.min(...seconds)),
    figure('crowd_all_seconds', `${name}: all served after, s`, 1, Math.max(...seconds)),
    figure('crowd_restart_seconds', `${name}: all served after a restart, s`, 2, Math.max(...again.seconds)),
    figure('crowd_all_rss_megabytes', `${name}: peak RSS with builders, MB`, 0, all),
    figure('crowd_rss_megabytes', `${name}: peak RSS of the server, MB`, 0, own, most(MOST_MEGABYTES)),
  ]
}

/** Starts a server, and waits until it serves all of them. */
async function prepareAll(place: Place, keys: readonly string[]) {
  const service = await startService('serve', place)
  const watched = watchMemory(service.pid)
  const seconds = await Promise.all(keys.map(key => untilServed(service, key)))
  const memory = watched.end()
  await service.end('SIGTERM')
  return { seconds, memory }
}
