-- Only unfiltered runs: a filtered run or a replay shows nothing about the other notices.
SELECT company, run_id, coalesce(finished_at, started_at) AS terminou_em, local_time(company, terminou_em) AS terminou_local,
  mode IN ('full', 'incremental') AND status IN ('ok', 'partial') AND not_attempted = 0 AS boa
FROM sync_runs
WHERE mode IN ('full', 'incremental')
