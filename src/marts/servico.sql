-- Every day from the first run to today, also one without a run: then nobody read. A look that finds nothing new is no run.
WITH por_dia AS (
  SELECT company, terminou_local::DATE AS dia, count(*) AS execucoes, count(*) FILTER (boa) AS execucoes_boas
  FROM leituras GROUP BY ALL
),
dias AS (
  SELECT company, agora_local, unnest(generate_series(primeiro, greatest(ultimo, agora_local::DATE), INTERVAL 1 DAY))::DATE AS dia
  FROM (SELECT company, local_time(company, agora()) AS agora_local, min(dia) AS primeiro, max(dia) AS ultimo FROM por_dia GROUP BY ALL)
),
-- The data are oldest just before a good run ends, and when the day ends, or now.
momentos AS (
  SELECT company, terminou_local::DATE AS dia, terminou_local AS momento, terminou_local AS lida FROM leituras WHERE boa
  UNION ALL
  SELECT company, dia, least(dia + INTERVAL 1 DAY, agora_local), NULL FROM dias
),
idades AS (
  SELECT company, dia, momento - max(lida) OVER (
      PARTITION BY company ORDER BY momento, lida NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS idade
  FROM momentos
)
SELECT company, dia,
  coalesce(execucoes, 0) AS execucoes,
  coalesce(execucoes_boas, 0) AS execucoes_boas,
  execucoes_boas / execucoes AS parcela_boa,
  maior_intervalo_horas
FROM dias
LEFT JOIN por_dia USING (company, dia)
LEFT JOIN (SELECT company, dia, epoch(max(idade)) / 3600 AS maior_intervalo_horas FROM idades GROUP BY ALL) USING (company, dia)
ORDER BY company, dia
