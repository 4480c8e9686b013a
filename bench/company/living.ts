import { generateWorld } from '#src/sandbox/generate.ts'
import { type Sandbox, startSandbox } from '#src/sandbox/server.ts'
import type { World } from '#src/sandbox/world.ts'
import type { Company } from './api.ts'

/** A company of the sandbox: smaller notices than those of `startApi`, and each can be changed in any way. */
export type Living = Company & { readonly world: World }

/** Generates the companies, and serves their API in this process. */
export async function startLiving(
  companies: readonly Company[],
  { start = new Date(), host = '127.0.0.1' }: { readonly start?: Date; readonly host?: string } = {},
): Promise<{ companies: Living[]; sandbox: Sandbox }> {
  const living = companies.map(company => ({
    ...company,
    world: generateWorld({ ...company, company: company.slug, start }),
  }))
  const served = living.map(({ slug, apiKey, world }) => ({ slug, key: apiKey, world }))
  return { companies: living, sandbox: await startSandbox({ companies: served, host }) }
}
