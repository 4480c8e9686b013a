import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Command } from 'commander'
import { EXIT, getMessage } from '#src/lib/errors.ts'
import { wholeNumber } from '#src/present/terminal/options.ts'
import { runWithServers, type Served, type Servers } from './servers.ts'
import { obtainTester, type Tester, testApi, type Verdict } from './tester.ts'

/** The ways to send the key (docs/contract.md#authentication). */
const HEADERS: Readonly<Record<string, (key: string) => readonly [string, string]>> = {
  'X-API-Key': key => ['X-API-Key', key],
  'Authorization: Bearer': key => ['Authorization', `Bearer ${key}`],
}

/**
 * The mirror's own API, with a description of its own. No schema can say that a day must exist, that a minimum must not be
 * above its maximum, or that a cursor must come from an answer: so some requests that fit are refused.
 */
const OWN_API = {
  name: "mirror's own API",
  description: '/api/v1/mirror/openapi.json',
  without: ['positive_data_acceptance'],
  // A protocol in a protocol, which has tests of its own: almost no message that fits its schema is a request of it.
  withoutPaths: ['/api/v1/mirror/mcp'],
}

/** Result of a mirror that could not start because the sync failed; the sandbox's own test shows the cause. */
const NOT_STARTED = { passed: false, cases: 0, failures: 0, seconds: 0 }

type Options = { readonly seed: number; readonly cases: number; readonly counts?: string }

const program = new Command('npm run test:api --')
  .description(
    'Tests sandbox and mirror against their own description (/openapi.json) with schemathesis: all checks, all phases, both key headers.',
  )
  .option('--seed <number>', 'seed of the requests', wholeNumber(0), 1)
  .option('--cases <number>', 'maximum number of requests per operation and phase', wholeNumber(1), 40)
  .option('--counts <file>', 'write the number of passed and failed runs as JSON')
  .showHelpAfterError('(add --help for the options)')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT.ok : EXIT.usage))
  .parse()

const options = program.opts<Options>()
await runWithServers('api', options.counts, async (servers, directory) => {
  const tester = await obtainTester()
  const sandbox = await servers.startSandbox()
  const { seed } = options
  process.stdout.write(
    `schemathesis ${tester.version}, all checks, seed ${seed}; for other requests: --seed ${seed + 1}\n`,
  )
  // In parallel: one sends requests while the other generates them.
  const mirrored = servers.startMirror(sandbox).then(
    async mirror => [
      ...(await testServer(tester, directory, mirror)),
      ...(await testServer(tester, directory, {
        ...mirror,
        ...OWN_API,
        ids: [await addWebhook(servers, mirror, sandbox)],
      })),
    ],
    (error): Result[] => [{ title: 'mirror', ...NOT_STARTED, output: getMessage(error) }],
  )
  const results = (await Promise.all([testServer(tester, directory, sandbox), mirrored])).flat()
  for (const { title, output, passed } of results)
    if (!passed) process.stdout.write(`\n${title}\n\n${output}\n`)
  for (const result of results) process.stdout.write(`${summary(result)}\n`)
  const failed = results.filter(({ passed }) => !passed).length
  return { passed: results.length - failed, failed }
})

/** One that can be replayed; nothing is sent, because no daemon runs. @returns its id. */
async function addWebhook(servers: Servers, { key }: Served, sandbox: Served): Promise<string> {
  const url = 'https://receiver.example.com/hooks'
  const added = await servers.runBehindMirror(
    ['webhooks', 'add', '--key', key, '--url', url, '--json'],
    sandbox,
  )
  return /whk_\w+/.exec(added)?.[0] ?? ''
}

type Result = Verdict & { readonly title: string }

async function testServer(
  tester: Tester,
  directory: string,
  { name, url, description, without, withoutPaths, key, ids }: Served,
): Promise<Result[]> {
  const results: Result[] = []
  for (const [header, present] of Object.entries(HEADERS)) {
    const own = join(directory, `${name}-${results.length}`)
    await mkdir(own)
    const verdict = await testApi(
      tester,
      { url, description, without, withoutPaths, header: present(key), ids },
      { seed: options.seed, cases: options.cases, directory: own },
    )
    results.push({ ...verdict, title: `${name}, ${header}` })
  }
  return results
}

function summary({ title, passed, cases, failures, seconds }: Result): string {
  const counted = `${cases} requests, ${failures} ${failures === 1 ? 'failure' : 'failures'}, ${seconds} s`
  return `${passed ? 'passed' : 'FAILED'}  ${title}: ${counted}`
}
