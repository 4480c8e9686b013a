import { generateWorld } from '#src/sandbox/generate.ts'
import type { Random } from '#src/sandbox/random.ts'
import type { World } from '#src/sandbox/world.ts'
import { type Company, companyOf, slugOf } from '../company/api.ts'
import { type Place, pathsOf, runAt } from '../company/place.ts'
import { factsOf, wrongNotices } from '../company/truth.ts'

/** A company whose every change has a later `updated_at`, so that each version need be requested only once. */
export type ChangingCompany = Company & { readonly world: World; change(): void }

export function makeCompanies(count: number, notices: number, random: Random): ChangingCompany[] {
  return Array.from({ length: count }, (_, index) => {
    const company = companyOf({ notices, seed: random.hex(8) }, slugOf(index))
    const world = generateWorld({ ...company, company: company.slug, start: new Date() })
    let lastMs = Date.now()
    return {
      ...company,
      world,
      change() {
        lastMs = Math.max(Date.now(), lastMs + 1)
        const updated_at = new Date(lastMs).toISOString()
        world.update(random.pick(world.ids()), { edital: { objeto: `Objeto ${lastMs}`, updated_at } })
      },
    }
  })
}

/**
 * Restores each company on an empty disk, without a request to the API, and compares it with its world.
 * @returns what differs.
 */
export async function compareAll(companies: readonly ChangingCompany[], place: Place): Promise<string[]> {
  const wrong: string[] = []
  for (const { slug, world } of companies) {
    await runAt(place, 'restore', ['--company', slug])
    const differing = await wrongNotices(pathsOf(place, slug).lake, factsOf(world))
    if (differing.length > 0) wrong.push(`${slug}: ${differing.slice(0, 3).join(', ')}`)
  }
  return wrong
}
