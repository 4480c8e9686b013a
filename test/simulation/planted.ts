import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Planted } from './plant.ts'
import { PLANTED_IN_FEED } from './planted_in_feed.ts'
import { PLANTED_STANDING } from './planted_standing.ts'

/** At least one per invariant: the simulation must catch them all. */
export const PLANTED: readonly Planted[] = [
  {
    invariant: 'I1',
    name: 'gone-is-no-outcome',
    file: 'src/core/pipeline/fetch.ts',
    from: '    fetched.gone += 1\n',
    to: '',
  },
  {
    invariant: 'I1',
    name: 'failed-counted-twice',
    file: 'src/core/pipeline/fetch.ts',
    from: '      fetched.failed += 1\n',
    to: '      fetched.failed += 2\n',
  },
  {
    invariant: 'I2',
    name: 'children-kept',
    file: 'src/core/warehouse/projection.ts',
    from: "...['row_places', ...ROW_TABLES.map(arrivalTable)].map(withoutReplaced)",
    to: "...['row_places'].map(withoutReplaced)",
  },
  {
    invariant: 'I3',
    name: 'watermark',
    file: 'src/core/pipeline/detect.ts',
    from: 'l.list_fields <> e._list_fields',
    to: 'l._updated_at > e._updated_at',
  },
  {
    invariant: 'I3',
    name: 'current-whatever-the-version',
    file: 'src/core/warehouse/projection.ts',
    from: "WHEN a._source_updated_at = e._updated_at AND a._segment >= e._segment THEN 'current'",
    to: "WHEN a._source_updated_at IS NOT NULL THEN 'current'",
  },
  {
    invariant: 'I4',
    name: 'tombstone-without-404',
    file: 'src/core/pipeline/missing.ts',
    from: '        const answer = await api.notice(id)\n        failuresInARow = 0\n',
    to: "        const answer = { kind: 'absent' }\n        failuresInARow = 0\n",
  },
  {
    invariant: 'I4',
    name: 'no-answer-is-gone',
    file: 'src/core/pipeline/missing.ts',
    from: '        unverified.push({ id, reason: error.message })\n',
    to: '        gone.push(id)\n',
  },
  {
    invariant: 'I5',
    name: 'flip-before-manifest',
    file: 'src/core/lake/publish.ts',
    from: "  await syncDirectory('snapshot.directory', directory)\n",
    to: "  await pointLatestTo(lake, snapshot)\n  await syncDirectory('snapshot.directory', directory)\n",
  },
  {
    invariant: 'I5',
    name: 'flip-not-atomic',
    file: 'src/core/lake/publish.ts',
    from: "  await move('latest.rename', temporary, latestLink(lake))\n",
    to: "  await remove('latest.link', latestLink(lake))\n  await move('latest.rename', temporary, latestLink(lake))\n",
  },
  {
    invariant: 'I5',
    name: 'flip-before-durable',
    file: 'src/core/lake/publish.ts',
    from: "  await syncDirectory('manifest.directory', directory)\n",
    to: '',
  },
  {
    invariant: 'I5',
    name: 'stale-month-reused',
    file: 'src/core/lake/export.ts',
    from: 'version.version > since)',
    to: 'version.version > since + 1)',
  },
  {
    invariant: 'I5',
    name: 'stale-early-month',
    file: 'src/core/lake/export.ts',
    from: 'segment >= (changed.get(file.month as string) ?? Number.POSITIVE_INFINITY)',
    to: 'changed.has(file.month as string)',
  },
  {
    invariant: 'I5',
    name: 'publish-before-commit',
    file: 'src/core/pipeline/load.ts',
    from: '      rotate({ more: false })\n      await applied\n',
    to: '      rotate({ more: false })\n',
  },
  {
    invariant: 'I6',
    name: 'segment-not-synced',
    file: 'src/core/rawlog/writer.ts',
    from: "    await take('segment.sync', { kind: 'sync', path }, () => file.sync())\n",
    to: '',
  },
  {
    invariant: 'I6',
    name: 'rename-not-synced',
    file: 'src/core/rawlog/writer.ts',
    from: "    await syncDirectory('segment.directory', this.#directory)\n",
    to: '',
  },
  {
    invariant: 'I6',
    name: 'clock-in-a-projection',
    file: 'src/core/warehouse/projection.ts',
    from: 'coalesce(first_seen_at, "at"), "at", NULL',
    to: 'coalesce(first_seen_at, now()), "at", NULL',
  },
  {
    invariant: 'I6',
    name: 'waves-without-order',
    file: 'src/core/warehouse/apply.ts',
    from: 'SET wave = n.wave FROM',
    to: 'SET wave = 1 FROM',
  },
  {
    invariant: 'I6',
    name: 'segment-applied-twice',
    file: 'src/core/warehouse/warehouse.ts',
    from: 'sealed.slice(applied, upTo)',
    to: 'sealed.slice(Math.max(0, applied - 1), upTo)',
  },
  {
    invariant: 'I5',
    name: 'bare-analysis-keeps-a-file',
    file: 'src/core/warehouse/row_sql.ts',
    from: "join(' + ')} > 0`",
    to: "join(' + ')} >= 0`",
  },
  {
    invariant: 'I7',
    name: 'key-not-masked',
    file: 'src/core/api/transport.ts',
    from: '      mask(reply.body)\n',
    to: '      if (reply.isCut) mask(reply.body)\n',
  },
  {
    invariant: 'I8',
    name: 'shared-lock',
    file: 'src/lib/lock.ts',
    from: "    db.exec('BEGIN EXCLUSIVE')\n  } catch (error) {\n    db.close()\n    if (isBusy",
    to: "    db.exec('BEGIN')\n  } catch (error) {\n    db.close()\n    if (isBusy",
  },
  {
    invariant: 'I9',
    name: 'twice-the-connections',
    file: 'src/core/api/transport.ts',
    from: '    connections: options.concurrency,',
    to: '    connections: options.concurrency * 2,',
  },
  {
    invariant: 'I12',
    name: 'index-one-run-too-old',
    file: 'src/core/pipeline/list_index.ts',
    from: "  if (JSON.stringify(place) !== JSON.stringify(present)) return 'the data changed since the last run'\n",
    to: '',
  },
  {
    invariant: 'I12',
    name: 'look-by-updated-at',
    file: 'src/core/pipeline/list_index.ts',
    from: 'fingerprint(drift.length > 0 ? withoutUnknown(compared) : compared)',
    to: 'fingerprint(JSON.parse(compared).updated_at)',
  },
  {
    invariant: 'I12',
    name: 'known-whatever-it-shows',
    file: 'src/core/pipeline/list_index.ts',
    from: '    return this.notices.get(key) === fingerprint\n',
    to: '    return this.notices.has(key)\n',
  },
  {
    invariant: 'I12',
    name: 'look-misses-removals',
    file: 'src/operate/look.ts',
    from: "  return isAllShown(known, seen) ? null : 'the list no longer shows a notice'\n",
    to: '  return null\n',
  },
  {
    invariant: 'I12',
    name: 'index-never-due',
    file: 'src/core/pipeline/list_index.ts',
    from: 'now.getTime() >= Date.parse(due_at)',
    to: 'now.getTime() < 0',
  },
  {
    invariant: 'I10',
    name: 'no-identity-guard',
    file: 'src/core/pipeline/missing.ts',
    from: "  return (await countLive(db)) >= GUARD_FROM_LIVE && !(await showsStored(db, 'e.deleted_at IS NULL'))\n",
    to: '  return (await countLive(db)) < 0\n',
  },
  {
    invariant: 'found',
    name: 'list-given-up',
    file: 'src/lib/lines.ts',
    from: "    const closed = new Promise(resolve => this.#stream.once('close', resolve))\n    this.#stream.destroy()\n    if (!this.#stream.closed) await closed\n",
    to: "    this.#stream.destroy()\n    if (!this.#stream.closed) await (await import('node:events')).once(this.#stream, 'close')\n",
  },
  {
    invariant: 'found',
    name: 'handle-left-open',
    file: 'src/core/rawlog/writer.ts',
    from: '      .finally(() => segment.drop())\n',
    to: '',
  },
  {
    invariant: 'found',
    name: 'resolved-unseen',
    file: 'src/core/warehouse/projection.ts',
    from: "    ...of(['analysis_same'], resolvedBySame()),\n",
    to: '',
  },
  {
    invariant: 'I10',
    name: 'no-mass-deletion-guard',
    file: 'src/core/pipeline/missing.ts',
    from: '  const held = gone.length > bound\n',
    to: '  const held = gone.length < 0\n',
  },
  {
    invariant: 'I13',
    name: 'latest-before-the-tables',
    file: 'src/extras/object_store/publish.ts',
    from: '  const begun: Latest = { ...latest, pending',
    to: '  const begun: Latest = { ...latest, snapshot, pending',
  },
  {
    invariant: 'I13',
    name: 'tables-before-their-files',
    file: 'src/extras/object_store/publish.ts',
    from: '  await uploadFiles(context, manifest.company, parts)\n  await context.onBegin(snapshot)\n',
    to: '  await context.onBegin(snapshot)\n',
  },
  {
    invariant: 'I13',
    name: 'catalog-never-asked',
    file: 'src/extras/object_store/publish.ts',
    from: '  for (const format of formats.values()) await format.finish()\n',
    to: '',
  },
  {
    invariant: 'I13',
    name: 'time-before-the-last-change',
    file: 'src/extras/object_store/publish.ts',
    from: 'Math.max(wanted.getTime(), ...changes)',
    to: 'Math.max(wanted.getTime(), ...changes.slice(changes.length))',
  },
  {
    invariant: 'I13',
    name: 'marts-made-again',
    file: 'src/extras/object_store/remote_lake.ts',
    from: '[manifest.snapshot, known.pending, known.snapshot]',
    to: '[]',
  },
  {
    invariant: 'I13',
    name: 'pending-not-synced',
    file: 'src/extras/object_store/state.ts',
    from: "  await syncFile('remote.sync', part)\n",
    to: '',
  },
  {
    invariant: 'I13',
    name: 'vacuum-of-what-is-named',
    file: 'src/extras/object_store/vacuum.ts',
    from: '    if (each.some(({ isNamed }) => isNamed(key))) continue\n',
    to: '',
  },
  {
    invariant: 'I14',
    name: 'sealed-by-another',
    file: 'src/extras/shared_log/segments.ts',
    from: '  if ((await hashAt(store, key)) === file.sha256) return\n',
    to: '  return\n',
    of: '--hosts',
  },
  {
    invariant: 'I14',
    name: 'lost-answer-is-a-lost-race',
    file: 'src/extras/shared_log/segments.ts',
    from: '  if ((await hashAt(store, key)) === file.sha256) return\n',
    to: '',
    of: '--hosts',
  },
  {
    invariant: 'I14',
    name: 'named-before-sealed',
    file: 'src/core/rawlog/writer.ts',
    from: '    await outer?.seal(this.#number, path)\n    await move(',
    to: '    outer?.seal(this.#number, path).catch(() => {})\n    await move(',
    of: '--hosts',
  },
  {
    invariant: 'I14',
    name: 'segment-created-anyhow',
    file: 'src/lib/objects/s3.ts',
    from: "Metadata: { [HASH]: sha256 }, IfNoneMatch: '*' }",
    to: 'Metadata: { [HASH]: sha256 } }',
    of: '--hosts',
  },
  {
    invariant: 'I14',
    name: 'base-too-long',
    file: 'src/extras/shared_log/restore.ts',
    from: '{ segments: checkpoint.segment, bytes',
    to: '{ segments: checkpoint.segment + 1, bytes',
    of: '--hosts',
  },
  {
    invariant: 'I14',
    name: 'checkpoint-without-its-rows',
    file: 'src/extras/shared_log/checkpoints.ts',
    from: '    if ((await store.head(key)) !== null) continue\n',
    to: '    if (row.file > 2 || (await store.head(key)) !== null) continue\n',
    of: '--hosts',
  },
  {
    invariant: 'I14',
    name: 'starts-with-what-it-has',
    file: 'src/extras/shared_log/segments.ts',
    from: '  await copySegments(place, await listSegmentsAfter(place, last), onSegment)\n',
    to: '  if (last === 0) await copySegments(place, await listSegmentsAfter(place, last), onSegment)\n',
    of: '--hosts',
  },
  {
    invariant: 'I14',
    name: 'silent-writer-requests-on',
    file: 'src/sync.ts',
    from: '  if (sharedLog !== null) api.onlyAfter(() => sharedLog.confirm())\n',
    to: '',
    of: '--hosts',
  },
  ...PLANTED_IN_FEED,
  ...PLANTED_STANDING,
]

const PROJECT = join(import.meta.dirname, '../..')
const COPIED = ['package.json', 'config', 'docs', 'schema', 'src', 'jobs', 'test', 'tools'] as const

/**
 * Runs the simulation on a copy of the project with the bug in it.
 * @returns the seed that caught it, or null if none did, and the printed failure.
 */
export async function tryPlanted(
  { file, from, to, of }: Planted,
  { seeds, workers }: { readonly seeds: number; readonly workers: number },
): Promise<{ seeds: number | null; output: string }> {
  const copy = await mkdtemp(join(tmpdir(), 'editais-sync-planted-'))
  try {
    for (const name of COPIED) await cp(join(PROJECT, name), join(copy, name), { recursive: true })
    await symlink(join(PROJECT, 'node_modules'), join(copy, 'node_modules'))
    const path = join(copy, file)
    const text = await readFile(path, 'utf8')
    if (text.split(from).length !== 2)
      throw new Error(`${file} does not contain this text exactly once: ${from}`)
    await writeFile(
      path,
      text.replace(from, () => to),
    )
    const kind = of ? [of] : []
    const within = ['--seeds', String(seeds), '--workers', String(workers)]
    const printed = await runSimulation(copy, [...kind, '--until-failure', ...within])
    const [, seed, failure] = /^Seed (\d+): (.*) \(npm run simulate/m.exec(printed) ?? []
    return { seeds: seed === undefined ? null : Number(seed), output: failure ?? printed.trim() }
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}

function runSimulation(copy: string, args: readonly string[]): Promise<string> {
  return new Promise(resolve => {
    const main = join(copy, 'test/simulation/main.ts')
    execFile(process.execPath, [main, ...args], { cwd: copy, maxBuffer: 1e8 }, (_, stdout, stderr) =>
      resolve(stdout + stderr),
    )
  })
}
