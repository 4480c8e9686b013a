-- The Mondays of a span of weeks around the present one, which is 0: for charts that show a week without anything, too.
TABLE
SELECT DISTINCT unnest(generate_series(segunda + 7 * primeira, segunda + 7 * ultima, INTERVAL 7 DAY))::DATE AS semana
FROM (SELECT date_trunc('week', local_time(company, agora()))::DATE AS segunda FROM snapshot_info)
