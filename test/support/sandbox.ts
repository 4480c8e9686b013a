import { onTestFinished } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { deriveSandboxKey, type Sandbox, startSandbox } from '#src/sandbox/server.ts'
import type { World } from '#src/sandbox/world.ts'
import { LIST_PATH } from '#src/server/contract/routes.ts'

/** "Now" in every generated world of the tests. */
export const START = new Date('2026-11-20T12:00:00Z')

export type SandboxCase = {
  readonly sandbox: Sandbox
  readonly world: World
  readonly key: string
  /** The world and key of a second company. */
  readonly other: { readonly world: World; readonly key: string }
  /** GET below `/api/v1/editais`, by default with the first company's key. */
  get(path?: string, headers?: Record<string, string>): Promise<Response>
}

/** A sandbox with two companies for the duration of the test. */
export async function openSandbox({ notices = 30, seed = 7 } = {}): Promise<SandboxCase> {
  const [one, two] = (['aurora', 'boreal'] as const).map(slug => ({
    slug,
    key: deriveSandboxKey(seed, slug),
    world: generateWorld({ seed, company: slug, notices, start: START }),
  })) as [SandboxCompanyCase, SandboxCompanyCase]
  const sandbox = await startSandbox({
    companies: [{ ...one, revokedKeys: [deriveSandboxKey(seed, 'revoked')] }, two],
    seed,
  })
  onTestFinished(() => sandbox.close())
  return {
    sandbox,
    world: one.world,
    key: one.key,
    other: two,
    get: (path = '', headers = { authorization: `Bearer ${one.key}` }) =>
      fetch(`${sandbox.url}${LIST_PATH}${path}`, { headers, redirect: 'manual' }),
  }
}

type SandboxCompanyCase = { slug: string; key: string; world: World }

export type Page = {
  editais: { id: string; status: string; created_at: string; updated_at: string }[]
  count: number
  total: number
  limit: number
  offset: number
}

/** The body of a list answer. */
export async function pageOf(response: Response): Promise<Page> {
  return (await response.json()) as Page
}
