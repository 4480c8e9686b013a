import { inFile } from './mutant.ts'

export const SQL = inFile('src/core/warehouse/sql.ts', [
  {
    name: 'local-time-as-utc',
    reason: 'times without an offset are three hours off',
    from: 'ELSE timezone(${literal(sourceTimezone)}, ${text}::TIMESTAMP) END',
    to: 'ELSE ${text}::TIMESTAMPTZ END',
  },
  {
    name: 'a-spelling-is-a-change',
    reason: 'the same local time in UTC is another version',
    from: '[beyondInstants(table, value)]',
    to: '[value]',
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
    from: "'timesAsSent' in from ? [beyondInstants(table, value)] : []",
    to: '[]',
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

export const APPLY_MANY = inFile('src/core/warehouse/apply.ts', [
  {
    name: 'first-analysis-stays',
    reason: 'a rebuild has the requirements of an analysis that was replaced',
    from: "max({'segment': s.segment",
    to: "min({'segment': s.segment",
  },
  {
    name: 'two-lists-in-a-wave',
    reason: 'a notice that changed twice is listed twice after a rebuild',
    from: 'NOT (is_analysis AND coalesce',
    to: 'NOT (coalesce',
  },
])

export const APPLY = [
  ...inFile('src/core/warehouse/projection.ts', [
    {
      name: 'resolved-unseen',
      reason: 'a quarantine that is over is not published',
      from: "    ...of(['analysis_same'], resolvedBySame()),\n",
      to: '',
    },
  ]),
  ...inFile('src/core/warehouse/projection.ts', [
    {
      name: 'children-kept',
      reason: 'items of an analysis stay beside those of the next',
      from: '...ROW_TABLES.map(arrivalTable)].map(withoutReplaced)',
      to: "...ROW_TABLES.filter(({ name }) => name !== 'items').map(arrivalTable)].map(withoutReplaced)",
    },
    {
      name: 'strays-stay',
      reason: 'rows that wait for their file stay in the month that their notice left, and a rebuild fails',
      from: "AS\n  SELECT edital_id, ${month('e.created_at')} AS month\n  FROM editais e JOIN row_places",
      to: 'AS\n  SELECT edital_id, p.month\n  FROM editais e JOIN row_places',
    },
    {
      name: 'places-kept',
      reason: 'the old rows of an analysis count besides the new ones',
      from: "...['row_places', ",
      to: '...[',
    },
    {
      name: 'gone-untouched',
      reason: 'a deletion is not published',
      from: "    ...touch([editais], typeMonths('gone')),\n",
      to: '',
    },
    {
      name: 'same-untouched',
      reason: 'the time of a reading is not published',
      from: "    ...touch([analyses], typeMonths('analysis_same')),\n",
      to: '',
    },
    {
      name: 'states-untouched',
      reason: 'a state that changes is not published',
      from: "    ...touch([editais], `SELECT ${month('created_at')}, segment FROM restated`),\n",
      to: '',
    },
    {
      name: 'states-are-no-news',
      reason: 'no snapshot is written for a state that changes',
      from: "    newData('FROM restated'),\n",
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
      reason: 'an analysis from before a change is published as current',
      from: " AND a._segment >= e._segment THEN 'current'",
      to: " THEN 'current'",
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
      from: 'FROM lines l JOIN editais e USING (edital_id)',
      to: 'FROM lines l LEFT JOIN editais e USING (edital_id)',
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
  ]),
]

export const EXPORT = inFile('src/core/lake/export.ts', [
  {
    name: 'early-and-outdated',
    reason: 'a month that changed after it was written early is published as it was',
    from: 'segment >= (changed.get(file.month as string) ?? Number.POSITIVE_INFINITY)',
    to: 'changed.has(file.month as string)',
  },
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
    from: ' && !changed.has(month))',
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
    from: "  openToReaders(path, access)\n  await syncFile('parquet.sync', path)\n  return { ...file",
    to: "  await syncFile('parquet.sync', path)\n  return { ...file",
  },
  {
    name: 'linked-first',
    reason: 'the manifest’s files are in no order',
    from: 'return files.sort((a, b) => a.path.localeCompare(b.path))',
    to: 'return files.reverse()',
  },
])

export const RETENTION = inFile('src/core/lake/manifest.ts', [
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

export const ROWS = [
  ...inFile('src/core/warehouse/row_sql.ts', [
    {
      name: 'old-rows-kept',
      reason: 'rows of replaced analyses stay in their month',
      from: ' AND source = ${source})`',
      to: ')`',
    },
    {
      name: 'rows-left-behind',
      reason: 'rows stay in the month that their notice left',
      from: 'n WHERE n.edital_id = ${table}.edital_id`',
      to: 'n WHERE n.edital_id = ${table}.edital_id AND false`',
    },
    {
      name: 'waiting-rows-dropped',
      reason: 'rows that are in no file yet are lost',
      from: "WHERE month NOT IN (${months.map(literal).join(', ')})`",
      to: 'WHERE false`',
    },
    {
      name: 'never-composed',
      reason: 'a month stays in several files, of which one is published',
      from: 'waiting > 0 OR files > 1 OR ',
      to: 'waiting > 0 OR ',
    },
  ]),
  ...inFile('src/core/warehouse/database.ts', [
    {
      name: 'long-texts-uncounted',
      reason: 'a company with long texts spills to thousands of files',
      from: "tag IN ('IN_MEMORY_TABLE', 'OVERFLOW_STRINGS')",
      to: "tag IN ('IN_MEMORY_TABLE')",
    },
  ]),
  ...inFile('src/core/warehouse/warehouse.ts', [
    {
      name: 'list-counted-again',
      reason: 'a company with a long list makes each segment durable',
      from: 'if (bytes - left < mostBytes) return',
      to: 'if (bytes < mostBytes) return',
    },
  ]),
  ...inFile('src/core/warehouse/row_files.ts', [
    {
      name: 'writes-what-is-arriving',
      reason: 'each segment writes the month that is being fetched once more',
      from: 'waiting.filter(({ arriving }) => !arriving)',
      to: 'waiting',
    },
    {
      name: 'saved-counts-as-settled',
      reason: 'a run that died leaves months in several files for ever',
      from: 'settled_segment AS settled FROM meta',
      to: '(${NEWEST_SEGMENT}) AS settled FROM meta',
    },
    {
      name: 'rows-uncounted',
      reason: 'a file that lacks rows is published',
      from: 'if (rows !== expected)',
      to: 'if (rows < 0)',
    },
    {
      name: 'cut-file-accepted',
      reason: 'a file that was cut short is published',
      from: 'about?.size === file.bytes',
      to: 'about !== null',
    },
    {
      name: 'strange-files-kept',
      reason: 'files that nothing lists fill the disk',
      from: 'if (!listed.has(path)) await remove',
      to: 'if (listed.size > 99) await remove',
    },
  ]),
]
