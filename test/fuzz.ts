import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import fc from 'fast-check'
import { EXIT } from '#src/lib/errors.ts'
import { wholeNumber } from '#src/present/terminal/options.ts'
import { checkListed, checkVerdict, validDocuments } from './support/judged.ts'
import { loadAndCompare, mutatedPair, saidBy } from './support/loaded.ts'
import { type Mutation, mutated, mutation } from './support/mutations.ts'
import type { Root } from './support/oracle/judge.ts'

/*
 * Runs millions of mutated documents through validation and through the whole sync, and compares each result with
 * the contract, each night. `test/integration/corpus.test.ts` has one document of each kind.
 *
 *   npm run fuzz -- [--documents 1000000] [--load 100000] [--seed N]
 */

/** Each part has its own seed, so that a failure can be replayed without the parts before it. */
const VALIDATED_AT_ONCE = 20_000
/** Pairs of a notice and an analysis per part; each part is one run of the sync. */
const LOADED_AT_ONCE = 3000
const ID = 'n0'

type Options = { readonly documents: number; readonly load: number; readonly seed: number }

async function fuzz({ documents, load, seed }: Options): Promise<void> {
  const startedMs = Date.now()
  print(`seed ${seed}`)
  const validated = timed('validated', documents)
  for (let part = 0; validated.done < documents; part += 1) {
    const count = Math.min(VALIDATED_AT_ONCE, documents - validated.done)
    const failure = validate(count, seed + part)
    if (failure) return fail(failure, `--seed ${seed + part} --documents ${count} --load 0`)
    validated.add(count)
  }
  const loaded = timed('loaded', load)
  let quarantined = 0
  let rows = 0
  for (let part = 0; loaded.done < load; part += 1) {
    const pairs = Math.min(LOADED_AT_ONCE, Math.ceil((load - loaded.done) / 2))
    try {
      const result = await loadSome(pairs, seed + part)
      quarantined += result.quarantined
      rows += result.rows
      loaded.add(result.documents)
    } catch (error) {
      return fail(String(error), `--seed ${seed + part} --documents 0 --load ${2 * pairs}`)
    }
  }
  print(
    `seed ${seed}: ${validated.done} documents validated, ${loaded.done} synced (${quarantined} quarantined, ${rows} rows compared), no differences, ${Math.round((Date.now() - startedMs) / 1000)} s`,
  )
}

const aDocument = fc.record({
  root: fc.constantFrom<Root>('notice', 'analysis'),
  mutation: mutation({ bytes: true }),
})

/** Returns the difference for the smallest failing document; null if all documents pass. */
function validate(count: number, seed: number): string | null {
  const bases = validDocuments()
  const bytesOf = (root: Root, each: Mutation) => mutated(each, bases[root], ID)
  const good = bytesOf('notice', { base: 0, edits: [], bytes: [] })
  const property = fc.property(aDocument, ({ root, mutation }) => {
    const bytes = bytesOf(root, mutation)
    checkVerdict(bytes, root, ID)
    if (root === 'notice' && mutation.bytes.length === 0) checkListed(bytes, good)
  })
  const { counterexample, errorInstance } = fc.check(property, { numRuns: count, seed })
  const [failing] = counterexample ?? []
  if (!failing) return null
  const { root, mutation } = failing
  return `${errorInstance}\n${JSON.stringify(mutation)}\n${root}: ${bytesOf(root, mutation)}`
}

async function loadSome(pairs: number, seed: number) {
  const directory = await mkdtemp(join(tmpdir(), 'editais-sync-fuzz-'))
  try {
    return await loadAndCompare(saidBy(fc.sample(mutatedPair, { numRuns: pairs, seed })), directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Counts documents and prints the progress every five seconds. */
function timed(what: string, total: number) {
  const startedMs = Date.now()
  let printedMs = startedMs
  return {
    done: 0,
    add(count: number) {
      this.done += count
      const nowMs = Date.now()
      if (nowMs - printedMs < 5000 && this.done < total) return
      printedMs = nowMs
      print(
        `${this.done} of ${total} ${what}, ${Math.round((this.done * 1000) / (nowMs - startedMs))} a second`,
      )
    },
  }
}

function fail(failure: string, replay: string): void {
  print(`${failure}\n\nReplay with: npm run fuzz -- ${replay}`)
  process.exitCode = 1
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

const program = new Command('npm run fuzz --')
  .description(
    'Runs mutated documents through validation and through the whole sync, and compares each result with an oracle.',
  )
  .option('--documents <number>', 'number of documents to validate', wholeNumber(0), 1_000_000)
  .option('--load <number>', 'number of documents to sync', wholeNumber(0), 100_000)
  .option(
    '--seed <number>',
    'seed of the generated documents',
    wholeNumber(0),
    Math.floor(Math.random() * 1e9),
  )
  .showHelpAfterError('(add --help for the options)')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT.ok : EXIT.usage))
  .parse()

await fuzz(program.opts<Options>())
