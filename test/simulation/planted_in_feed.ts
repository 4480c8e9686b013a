import type { Planted } from './plant.ts'

/** What a consumer of the feed must not notice. */
export const PLANTED_IN_FEED: readonly Planted[] = [
  {
    invariant: 'I15',
    name: 'what-was-set-aside',
    file: 'src/server/feed/indexer.ts',
    from: 'if (isDocument(line) && !loaded.has(lineKey(type, id, Date.parse(at)))) continue\n',
    to: '',
    of: '--feed',
  },
  {
    invariant: 'I15',
    name: 'events-before-their-segment',
    file: 'src/server/feed/index_file.ts',
    from: "    this.#db.exec('BEGIN IMMEDIATE')\n    try {\n      const result = await work()\n      this.#db.exec('COMMIT')\n",
    to: '    try {\n      const result = await work()\n',
    of: '--feed',
  },
  {
    invariant: 'I15',
    name: 'the-last-event-again',
    file: 'src/server/feed/index_file.ts',
    from: 'WHERE (e.segment, e.seq, e.n) > (?, ?, ?)',
    to: 'WHERE (e.segment, e.seq, e.n) >= (?, ?, ?)',
    of: '--feed',
  },
  {
    invariant: 'I15',
    name: 'another-log-unnoticed',
    file: 'src/server/feed/indexer.ts',
    from: '    if (!isSame) return index.clear()\n',
    to: '    if (!isSame) return\n',
    of: '--feed',
  },
  {
    invariant: 'I15',
    name: 'a-cursor-of-another-log',
    file: 'src/server/feed/feed.ts',
    from: 'if (own && beginsWith(own.chain, cursor.chain) && isOfLog(reader, cursor)) return',
    to: 'if (own) return',
    of: '--feed',
  },
  {
    invariant: 'I15',
    name: 'a-cursor-of-events-alone',
    file: 'src/server/feed/index_file.ts',
    from: "const log = 'upTo' in after && after.upTo > upTo ? after : this.#logUpTo(upTo, madeMs)",
    to: 'const log = this.#logUpTo(Math.max(1, after.segment))',
    of: '--feed',
  },
  {
    invariant: 'I15',
    name: 'an-outdated-analysis-is-no-event',
    file: 'src/server/feed/events.ts',
    from: "  if (was && !is) return { state, events: [...events, { kind: 'analysis_outdated' }] }\n",
    to: '',
    of: '--feed',
  },
]
