import { randomBytes } from 'node:crypto'
import { generateWorld } from '#src/sandbox/generate.ts'
import type { Random } from '#src/sandbox/random.ts'
import type { World } from '#src/sandbox/world.ts'

/** A company whose every change has a later `updated_at`, so that each version need be requested only once. */
export type ChangingCompany = {
  readonly slug: string
  readonly key: string
  readonly world: World
  change(): void
}

export function makeCompanies(count: number, notices: number, random: Random): ChangingCompany[] {
  return Array.from({ length: count }, (_, index) => {
    const slug = `company-${String(index + 1).padStart(2, '0')}`
    const world = generateWorld({ seed: random.hex(8), company: slug, notices, start: new Date() })
    let lastMs = Date.now()
    return {
      ...{ slug, world, key: randomBytes(16).toString('hex') },
      change() {
        lastMs = Math.max(Date.now(), lastMs + 1)
        const updated_at = new Date(lastMs).toISOString()
        world.update(random.pick(world.ids()), { edital: { objeto: `Objeto ${lastMs}`, updated_at } })
      },
    }
  })
}
