import { Command } from 'commander'
import { EXIT } from '#src/lib/errors.ts'
import { wholeNumber } from '#src/present/terminal/options.ts'
import { runWithServers } from '#test/api/servers.ts'
import { testDuckDbFiles } from './duckdb_files.ts'
import { testFeed } from './feed/test_feed.ts'
import { testKubernetes } from './kubernetes/test_kubernetes.ts'
import { testLake } from './lake/test_lake.ts'
import { testMcp } from './mcp/test_mcp.ts'
import type { Result } from './result.ts'
import { testTraces } from './traces/test_traces.ts'

const program = new Command('npm run test:engines --')
  .description('Reads everything that is published with other engines, and compares every value.')
  .option('--snapshots <count>', 'publish this many snapshots while a reader reads', wholeNumber(1), 10)
  .option(
    '--heavy',
    'also read with Trino and Spark, check the Helm chart and traces: downloads 1.2 GB and builds for ten minutes, once',
  )
  .option('--quick', 'without stores, catalogs and engines that are built or downloaded for minutes')
  .option('--counts <file>', 'write the number of passed and failed readings as JSON')
  .showHelpAfterError('(add --help for the options)')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT.ok : EXIT.usage))
  .parse()

const options = program.opts<{
  readonly snapshots: number
  readonly quick?: true
  readonly heavy?: true
  readonly counts?: string
}>()
await runWithServers('engines', options.counts, async (servers, directory) => {
  const counts = { passed: 0, failed: 0 }
  const heavy = options.heavy ? [testTraces, testKubernetes] : []
  for (const test of [testDuckDbFiles, testFeed, testMcp, ...heavy, testLake])
    for await (const result of test(servers, directory, options)) {
      show(result)
      counts[result.wrong.length === 0 ? 'passed' : 'failed'] += 1
    }
  return counts
})

function show({ title, wrong }: Result): void {
  process.stdout.write(`${wrong.length === 0 ? 'passed' : 'FAILED'}  ${title}\n${wrong.join('')}`)
}
