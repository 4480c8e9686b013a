import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A mistake that somebody could make, as a replacement in one file; `from` stands there exactly once. */
export type Mutant = {
  readonly name: string
  /** What goes wrong with it. */
  readonly reason: string
  readonly file: string
  readonly from: string
  readonly to: string
}

type Replaced = Omit<Mutant, 'file'>

function inFile(file: string, mutants: readonly Replaced[]): Mutant[] {
  return mutants.map(mutant => ({ ...mutant, file }))
}

const DETECT = inFile('src/pipeline/detect.ts', [
  {
    name: 'later-only',
    reason: 'an updated_at that goes back is no change',
    from: 'l._updated_at IS DISTINCT FROM e._updated_at OR',
    to: 'l._updated_at > e._updated_at OR',
  },
  {
    name: 'fields-ignored',
    reason: 'a field that changes without updated_at is never seen',
    from: ' OR l.list_fields <> e._list_fields',
    to: '',
  },
  {
    name: 'fetched-before-the-change',
    reason: 'an analysis of before a change passes for current',
    from: ' AND a._segment >= e._segment AS same_version',
    to: ' AS same_version',
  },
  {
    name: 'same-segment-is-before',
    reason: 'what came with its notice is fetched again in each run',
    from: 'a._segment >= e._segment AS same_version',
    to: 'a._segment > e._segment AS same_version',
  },
  {
    name: 'waits-a-moment-longer',
    reason: 'a record waits also at its next attempt',
    from: '$now::TIMESTAMPTZ < ${q}.next_attempt_at',
    to: '$now::TIMESTAMPTZ <= ${q}.next_attempt_at',
  },
  {
    name: 'waits-for-a-wrong-clock',
    reason: 'what a clock that was ahead set aside waits for years',
    from: '(${q}.observed_at <= $now::TIMESTAMPTZ AND ',
    to: '(',
  },
  {
    name: 'waits-for-another-version',
    reason: 'a notice that changed waits for what was wrong with the one before',
    from: "q._updated_at IS NOT DISTINCT FROM l._updated_at AND ${isWaiting('q')}",
    to: "${isWaiting('q')}",
  },
  {
    name: 'set-aside-for-ever',
    reason: 'a quarantined analysis whose predecessor is current is never requested',
    from: 'q.edital_id IS NOT NULL OR coalesce(a._segment',
    to: 'coalesce(a._segment',
  },
  {
    name: 'full-misses-the-last',
    reason: 'a --full leaves out what its own first segment held',
    from: 'OR coalesce(a._segment <= $refetch_segment',
    to: 'OR coalesce(a._segment < $refetch_segment',
  },
  {
    name: 'never-revived',
    reason: 'a deleted notice that returns stays deleted',
    from: "          WHEN e.deleted_at IS NOT NULL THEN 'revived'\n",
    to: '',
  },
  {
    name: 'known-by-id-alone',
    reason: 'a broken record that changes is not looked at',
    from: 'bad._hash = l.hash AND ',
    to: '',
  },
  {
    name: 'usable-again-unseen',
    reason: 'what was set aside stays open although it can be used again',
    from: " OR bad.kind IS NOT NULL THEN 'changed'",
    to: " THEN 'changed'",
  },
  {
    name: 'oldest-first',
    reason: 'the newest notices are fetched last',
    from: 'created_at DESC, edital_id\n',
    to: 'created_at, edital_id\n',
  },
  {
    name: 'same-strides',
    reason: 'the same notices stand together in each run',
    from: 'hash(edital_id || ',
    to: 'hash(edital_id, ',
  },
  {
    name: 'closed-like-open',
    reason: 'closed notices are read again as often as open ones',
    from: "ELSE ${closedMs ?? 'NULL'} END",
    to: "ELSE ${openMs ?? 'NULL'} END",
  },
  {
    name: 'future-is-young',
    reason: 'a clock that was ahead keeps an analysis for years',
    from: 'NOT ($now::TIMESTAMPTZ > a.fetched_at - ${age} AND ',
    to: 'NOT (',
  },
])

const MISSING = inFile('src/pipeline/missing.ts', [
  {
    name: 'guard-from-more',
    reason: 'twenty notices of another company are taken for ours',
    from: 'const GUARD_FROM_LIVE = 20',
    to: 'const GUARD_FROM_LIVE = 21',
  },
  {
    name: 'held-at-the-bound',
    reason: 'as many deletions as are to be believed are not',
    from: 'const held = gone.length > bound',
    to: 'const held = gone.length >= bound',
  },
  {
    name: 'no-share',
    reason: 'a large company can never lose more than twenty notices',
    from: 'Math.max(GUARD_COUNT, live * GUARD_SHARE)',
    to: 'GUARD_COUNT',
  },
  {
    name: 'deleted-are-missing',
    reason: 'deleted notices are requested in each run',
    from: 'FROM editais WHERE deleted_at IS NULL\n     AND edital_id NOT IN',
    to: 'FROM editais WHERE true\n     AND edital_id NOT IN',
  },
  {
    name: 'nameless-hides-all',
    reason: 'one record without an id, and nothing is missing any more',
    from: 'FROM listed WHERE edital_id IS NOT NULL) ORDER BY',
    to: 'FROM listed) ORDER BY',
  },
  {
    name: 'same-by-id-alone',
    reason: 'another company with the same ids passes for ours',
    from: "'coalesce(l.created_at = e.created_at, true)'",
    to: "'true'",
  },
  {
    name: 'failures-never-forgotten',
    reason: 'twenty failures in a long run end the asking',
    from: '        failuresInARow = 0\n',
    to: '',
  },
  {
    name: 'found-and-dropped',
    reason: 'a notice that exists after all is not compared',
    from: '          await options.listed.add([validateNotice(answer.bytes, id)])\n',
    to: '',
  },
  {
    name: 'too-large-is-foreign',
    reason: 'an answer without a notice counts against the key',
    from: "if (answer.kind !== 'body' || !isAnother(",
    to: "if (answer.kind === 'body' && !isAnother(",
  },
  {
    name: 'oldest-sampled',
    reason: 'the notices that are most likely gone are requested',
    from: 'ORDER BY updated_at DESC LIMIT',
    to: 'ORDER BY updated_at LIMIT',
  },
])

const FETCH = inFile('src/pipeline/fetch.ts', [
  {
    name: 'gone-unconfirmed',
    reason: 'an analysis that is not there counts as a notice that went away',
    from: '    await confirmGone(api, edital_id)\n',
    to: '',
  },
  {
    name: 'silent-whatever-changed',
    reason: 'changes that updated_at shows are called silent',
    from: 'if (work.hash !== null && work.same_version)',
    to: 'if (work.hash !== null)',
  },
  {
    name: 'circuit-by-refusals',
    reason: 'twenty notices that the API refuses end the run',
    from: 'failuresInARow = error.transient ? failuresInARow + 1 : 0',
    to: 'failuresInARow += 1',
  },
  {
    name: 'circuit-late',
    reason: 'one request more than is promised goes to an API that is down',
    from: 'failuresInARow >= CIRCUIT_FAILURES',
    to: 'failuresInARow > CIRCUIT_FAILURES',
  },
  {
    name: 'success-not-noted',
    reason: 'twenty failures in a long run open the circuit',
    from: '      await fetchOne(options, next, fetched)\n      failuresInARow = 0\n',
    to: '      await fetchOne(options, next, fetched)\n',
  },
  {
    name: 'interrupt-unseen',
    reason: 'a run that is to stop fetches all that is left',
    from: '      if (signal.aborted) {\n',
    to: '      if (false) {\n',
  },
  {
    name: 'raw-dropped',
    reason: 'what the document does not say is lost',
    from: "      ...(raw ? { raw: raw.toString('base64') } : {}),\n",
    to: '',
  },
  {
    name: 'one-too-many-at-once',
    reason: 'with one connection two requests wait for it',
    from: 'api.concurrency * 2 - 1',
    to: 'api.concurrency * 2',
  },
])

const LOAD = inFile('src/pipeline/load.ts', [
  {
    name: 'settled-too-early',
    reason: 'what is published is not in the warehouse yet',
    from: '      rotate()\n      await applied\n',
    to: '      rotate()\n',
  },
  {
    name: 'never-waits',
    reason: 'fetching outruns DuckDB until the memory is full',
    from: 'if (waiting >= MAX_SEGMENTS_WAITING) await applied',
    to: 'if (waiting < 0) await applied',
  },
  {
    name: 'sealed-late',
    reason: 'a crash costs more than is promised',
    from: 'ageMs < MAX_SEGMENT.ageMs',
    to: 'ageMs <= MAX_SEGMENT.ageMs',
  },
  {
    name: 'poison-unreported',
    reason: 'the run reports notices as loaded that were set aside',
    from: 'if (segment) poisoned.push(...(await applySegment(db, segment, projection)))',
    to: 'if (segment) await applySegment(db, segment, projection)',
  },
])

const SQL = inFile('src/store/warehouse/sql.ts', [
  {
    name: 'local-time-as-utc',
    reason: 'times without an offset are three hours off',
    from: 'ELSE timezone(${literal(sourceTimezone)}, ${text}::TIMESTAMP) END',
    to: 'ELSE ${text}::TIMESTAMPTZ END',
  },
  {
    name: 'seven-decimals-lost',
    reason: 'digits that an instant cannot hold are forgotten',
    from: '\\\\d{1,6})?(Z|',
    to: '\\\\d{1,7})?(Z|',
  },
  {
    name: 'ordinals-from-zero',
    reason: 'elements are counted otherwise than is written down',
    from: 'generate_subscripts(${array}, 1) AS ordinal',
    to: 'generate_subscripts(${array}, 1) - 1 AS ordinal',
  },
  {
    name: 'fingerprint-without-times',
    reason: 'a time that is sent otherwise is no change',
    from: "'field' in from || 'timesAsSent' in from)",
    to: "'field' in from)",
  },
  {
    name: 'words-as-booleans',
    reason: 'a text passes for what the notice decides',
    from: "CASE WHEN json_type(${value}) = 'BOOLEAN' THEN ${value}::BOOLEAN END",
    to: "TRY_CAST(${value} ->> '$' AS BOOLEAN)",
  },
  {
    name: 'fetched-now',
    reason: 'what was received long ago looks fresh',
    from: `return 'coalesce(fetched_at, "at")'`,
    to: `return '"at"'`,
  },
  {
    name: 'received-here',
    reason: 'what was received before a change passes for current',
    from: "return 'coalesce(fetched_in, segment)'",
    to: "return 'segment'",
  },
  {
    name: 'empty-parts-swapped',
    reason: 'a part with a value is called empty',
    from: "::VARCHAR`).join(', ')}) IS NULL",
    to: "::VARCHAR`).join(', ')}) IS NOT NULL",
  },
])

const APPLY = inFile('src/store/warehouse/apply.ts', [
  {
    name: 'children-kept',
    reason: 'items of an analysis stay beside those of the next',
    from: "ANALYSIS_TABLES.filter(table => table.rows === 'current')",
    to: "ANALYSIS_TABLES.filter(table => table.rows === 'current' && table.name !== 'items')",
  },
  {
    name: 'gone-untouched',
    reason: 'a deletion is not published',
    from: "    ...touch([editais], monthsOf('gone')),\n",
    to: '',
  },
  {
    name: 'same-untouched',
    reason: 'the time of a reading is not published',
    from: "    ...touch([analyses], monthsOf('analysis_same')),\n",
    to: '',
  },
  {
    name: 'states-untouched',
    reason: 'a state that changes is not published',
    from: "    ...touch([editais], `SELECT DISTINCT ${month('created_at')} FROM restated`),\n",
    to: '',
  },
  {
    name: 'states-are-no-news',
    reason: 'no snapshot is written for a state that changes',
    from: '    `UPDATE meta SET data_version = ${at} WHERE EXISTS (FROM restated)`,\n',
    to: '',
  },
  {
    name: 'old-month-untouched',
    reason: 'a notice that moves is published in two months',
    from: "unnest([${month('created_at')}, ${month('previous_created_at')}])",
    to: "unnest([${month('created_at')}])",
  },
  {
    name: 'current-before-the-change',
    reason: 'an analysis of before a change is published as current',
    from: " AND a._segment >= e._segment THEN 'current'",
    to: " THEN 'current'",
  },
  {
    name: 'resolved-unseen',
    reason: 'a quarantine that is over is not published',
    from: "    ...of(['analysis_same'], resolvedBySame(at)),\n",
    to: '',
  },
  {
    name: 'any-notice-resolves',
    reason: 'an analysis that cannot be used is forgotten when its notice changes',
    from: "(l.type = 'notice' AND quarantine.kind = 'notice')",
    to: "l.type = 'notice'",
  },
  {
    name: 'waits-twice-as-long',
    reason: 'what was set aside is tried half as often',
    from: 'pow(2, least(attempts - 1, 20))',
    to: 'pow(2, least(attempts, 20))',
  },
  {
    name: 'attempts-never-anew',
    reason: 'a new version waits for the faults of the old ones',
    from: 'CASE WHEN q._updated_at IS NOT DISTINCT FROM l.updated_at THEN coalesce(q.attempts, 0) ELSE 0 END',
    to: 'coalesce(q.attempts, 0)',
  },
  {
    name: 'first-seen-moves',
    reason: 'each change makes a notice new',
    from: 'coalesce(first_seen_at, "at"), "at", NULL',
    to: '"at", "at", NULL',
  },
  {
    name: 'orphans-loaded',
    reason: 'an analysis is published of a notice that is not there',
    from: 'type = ${literal(type)} AND edital_id IN (SELECT edital_id FROM editais))',
    to: 'type = ${literal(type)})',
  },
  {
    name: 'full-over-too-early',
    reason: 'a --full ends although analyses failed',
    from: ' AND report.failed = 0 AND',
    to: ' AND',
  },
  {
    name: 'last-sample',
    reason: 'a rebuild in other segments gives another sample',
    from: 'arg_min(sample,',
    to: 'arg_max(sample,',
  },
])

const EXPORT = inFile('src/store/lake/export.ts', [
  {
    name: 'all-since',
    reason: 'months that did not change are written again',
    from: 'version.version > since)',
    to: 'version.version >= since)',
  },
  {
    name: 'any-table-is-stale',
    reason: 'a table’s months are written for changes of another',
    from: 'version.table_name === table.name && ',
    to: '',
  },
  {
    name: 'stale-and-linked',
    reason: 'a month that changed is also linked as it was',
    from: ' && !stale.includes(file.month))',
    to: ')',
  },
  {
    name: 'rows-may-be-missing',
    reason: 'a snapshot without a month is published',
    from: 'if (published !== target.rows)',
    to: 'if (published > target.rows)',
  },
  {
    name: 'empty-month-kept',
    reason: 'a month without notices is published',
    from: 'if (count > 0) return',
    to: 'if (count >= 0) return',
  },
  {
    name: 'no-empty-file',
    reason: 'who reads a table without rows finds no columns',
    from: 'if (files.length === 0) files.push',
    to: 'if (files.length < 0) files.push',
  },
  {
    name: 'left-writable',
    reason: 'a published file can be changed by mistake',
    from: "  await openToReaders(path, access)\n  await syncFile('parquet.sync', path)\n  return { ...file",
    to: "  await syncFile('parquet.sync', path)\n  return { ...file",
  },
  {
    name: 'linked-first',
    reason: 'the manifest’s files are in no order',
    from: 'return files.sort((a, b) => a.path.localeCompare(b.path))',
    to: 'return files.reverse()',
  },
])

const RETENTION = inFile('src/store/lake/retention.ts', [
  {
    name: 'one-kept',
    reason: 'the snapshot that a reader has just opened is removed',
    from: 'const ALWAYS_KEPT = 2',
    to: 'const ALWAYS_KEPT = 1',
  },
  {
    name: 'by-its-own-age',
    reason: 'the latest of a quiet month expires with the next one',
    from: 'manifests[index + 1]',
    to: 'manifests[index]',
  },
  {
    name: 'removed-in-use',
    reason: 'a snapshot that is served is removed',
    from: 'inUse.includes(snapshot) || ',
    to: '',
  },
  {
    name: 'clock-put-back',
    reason: 'after a clock is put back a fresh snapshot is removed',
    from: 'Math.max(Date.parse(successor.created_at), Date.parse(created_at))',
    to: 'Date.parse(successor.created_at)',
  },
  {
    name: 'half-removed-looks-whole',
    reason: 'a crash leaves a snapshot with a manifest and without its files',
    from: "    await remove('expired.unlist', join(directory, snapshot, 'manifest.json'))\n",
    to: '',
  },
])

/** The unit tests must catch them all. */
export const MUTANTS: readonly Mutant[] = [
  ...DETECT,
  ...MISSING,
  ...FETCH,
  ...LOAD,
  ...SQL,
  ...APPLY,
  ...EXPORT,
  ...RETENTION,
]

const PROJECT = join(import.meta.dirname, '..')
const COPIED = [
  'package.json',
  'vitest.config.ts',
  'config',
  'docs',
  'jobs',
  'schema',
  'src',
  'test',
] as const
/** They notice any other text, whatever it does: a mutant must be caught by what it does. */
const BY_TEXT: readonly string[] = ['test/unit/mutants.test.ts', 'test/unit/schema/version.test.ts']

/** Of the tests that failed, the first, and how many others; null where all passed. */
export type Caught = { readonly by: string; readonly others: number } | null

/**
 * Runs the unit tests on a copy of the project with the mutant in it; without one, on the project as it is.
 * @throws Error where its text does not stand in its file once, or no test ran.
 */
export async function tryMutant(mutant: Mutant | null): Promise<Caught> {
  const copy = await mkdtemp(join(tmpdir(), 'editais-sync-mutant-'))
  try {
    for (const name of COPIED) await cp(join(PROJECT, name), join(copy, name), { recursive: true })
    for (const name of BY_TEXT) await rm(join(copy, name))
    await symlink(join(PROJECT, 'node_modules'), join(copy, 'node_modules'))
    if (mutant !== null) await mutate(copy, mutant)
    return await runUnitTests(copy)
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}

async function mutate(copy: string, { file, from, to }: Mutant): Promise<void> {
  const path = join(copy, file)
  const parts = (await readFile(path, 'utf8')).split(from)
  if (parts.length !== 2) throw new Error(`${file} holds ${parts.length - 1} times, not once: ${from}`)
  await writeFile(path, parts.join(to))
}

type TestResults = {
  readonly numTotalTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message: string
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[]
  }[]
}

async function runUnitTests(copy: string): Promise<Caught> {
  const path = join(copy, 'results.json')
  const vitest = join(copy, 'node_modules/vitest/vitest.mjs')
  // No test is waited for once one has failed; a mutant that hangs is caught by a timeout.
  const options = ['--bail', '1', '--no-cache', '--reporter', 'json', '--outputFile', path]
  const output = await new Promise<string>(resolve => {
    execFile(
      process.execPath,
      [vitest, 'run', '--project', 'unit', ...options],
      { cwd: copy, maxBuffer: 1e8 },
      (_, stdout, stderr) => resolve(stdout + stderr),
    )
  })
  const results = JSON.parse(await readFile(path, 'utf8').catch(() => '{}')) as Partial<TestResults>
  if (!results.numTotalTests) throw new Error(`no test ran:\n${output}`)
  const failed = (results.testResults ?? []).flatMap(file => {
    const tests = file.assertionResults.filter(({ status }) => status === 'failed')
    if (tests.length > 0) return tests.map(({ fullName }) => fullName)
    return file.status === 'failed' && file.message !== '' ? [`${file.name}: ${file.message}`] : []
  })
  const [by] = failed
  return by === undefined ? null : { by, others: failed.length - 1 }
}
