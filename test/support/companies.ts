import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type Sandbox, startSandbox } from '#src/sandbox/server.ts'
import { type Entry, World } from '#src/sandbox/world.ts'
import type { RouteKind } from '#src/server/contract/routes.ts'
import { notices } from './notices.ts'
import { type Environment, settingsFor, temporaryDirectory } from './project.ts'
import { companyAt, type SyncedCompany } from './synced.ts'

type Settings = Readonly<Record<string, string>>

/** Several companies of one sandbox, as `config/companies.yaml` configures them. */
export type Companies = {
  readonly sandbox: Sandbox
  /** Settings of a worker: the paths of the file and the data, but no key. */
  readonly environment: Environment
  /** The companies' file. */
  readonly file: string
  /** Rewrites the file with these companies and their settings (in lower case). */
  configure(companies: Readonly<Record<string, Settings>>): Promise<void>
  /** The file with the key of a company. */
  keyFile(slug: string): string
  /** The key that the sandbox accepts. */
  keyOf(slug: string): string
  /** A company for a test's own commands, with their environment. */
  company(slug: string): SyncedCompany
}

/** Serves these companies, each with its own notices; none is configured yet. */
export async function startCompanies(
  slugs: readonly string[],
  entriesOf: (slug: string) => Iterable<Entry> = () => notices(1, 30),
): Promise<Companies> {
  const worlds = new Map(slugs.map(slug => [slug, new World(entriesOf(slug))]))
  const worldOf = (slug: string) => worlds.get(slug) as World
  const sandbox = await startSandbox({
    companies: slugs.map(slug => ({ slug, key: keyOf(slug), world: worldOf(slug) })),
  })
  onTestFinished(() => sandbox.close())
  const directory = await temporaryDirectory()
  const file = join(directory, 'companies.yaml')
  const keyFile = (slug: string) => join(directory, `${slug}.key`)
  for (const slug of slugs) await writeFile(keyFile(slug), keyOf(slug))
  const dataDir = await temporaryDirectory()
  const { API_KEY: _, COMPANY: __, ...shared } = settingsFor({ url: sandbox.url, key: '', dataDir })
  return {
    sandbox,
    file,
    keyFile,
    keyOf,
    // Requests that a test holds must not time out.
    environment: { ...shared, API_TIMEOUT_MS: '60000', COMPANIES_FILE: file },
    async configure(companies) {
      const all = Object.entries(companies).map(([slug, settings]) => [
        slug,
        { api_key_file: keyFile(slug), ...settings },
      ])
      // JSON is YAML.
      await writeFile(file, JSON.stringify({ companies: Object.fromEntries(all) }, null, 2))
    },
    company: slug =>
      companyAt(
        sandbox,
        worldOf(slug),
        settingsFor({ ...{ url: sandbox.url, key: keyOf(slug) }, dataDir, company: slug }),
      ),
  }
}

function keyOf(slug: string): string {
  return `edk_${slug}_4c81f07ae25d`
}

/** Ids requested with the company's key since the last reset, sorted, with duplicates. */
export function askedFor({ requests }: Sandbox, company: string, kind: RouteKind): string[] {
  return requests.recent
    .filter(request => request.company === company && request.kind === kind)
    .map(({ id }) => id ?? '')
    .sort()
}
