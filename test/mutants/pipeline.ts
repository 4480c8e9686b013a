import { inFile } from './mutant.ts'

export const DETECT = inFile('src/core/pipeline/detect.ts', [
  {
    name: 'later-only',
    reason: 'an updated_at that goes back is no change',
    from: 'l.list_fields <> e._list_fields OR',
    to: 'l._updated_at > e._updated_at OR',
  },
  {
    name: 'fields-ignored',
    reason: 'a field that changes without updated_at is never seen',
    from: 'l.list_fields <> e._list_fields',
    to: 'l._updated_at IS DISTINCT FROM e._updated_at',
  },
  {
    name: 'fetched-before-the-change',
    reason: 'an analysis from before a change passes for current',
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
    from: "${month('created_at')} DESC, hash(",
    to: "${month('created_at')}, hash(",
  },
  {
    name: 'same-strides',
    reason: 'the same months come last in each run',
    from: "hash(${month('created_at')} || ${now})",
    to: "hash(${month('created_at')})",
  },
  {
    name: 'same-order-in-a-month',
    reason: 'the same notices stand together in each run',
    from: 'hash(edital_id || ${now}), edital_id',
    to: 'edital_id',
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

export const MISSING = inFile('src/core/pipeline/missing.ts', [
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
    from: 'coalesce(l.created_at = e.created_at, true)',
    to: 'true',
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

export const FETCH = inFile('src/core/pipeline/fetch.ts', [
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

export const LOAD = inFile('src/core/pipeline/load.ts', [
  {
    name: 'settled-too-early',
    reason: 'what is published is not in the warehouse yet',
    from: '      rotate({ more: false })\n      await applied\n',
    to: '      rotate({ more: false })\n',
  },
  {
    name: 'large-to-the-end',
    reason: 'the last segment is applied when all others could have been',
    from: 'Math.max(pace.documents, toCome)',
    to: 'Math.max(MAX_SEGMENT.documents, toCome)',
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
    from: 'poisoned.push(...(await applySegment(db, segment, projection)))',
    to: 'await applySegment(db, segment, projection)',
  },
])
