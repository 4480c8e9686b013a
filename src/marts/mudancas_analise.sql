-- A requirement or an alert is found again by its title, in any spelling; of several with one title, by its place among them.
WITH leituras AS (
  SELECT company, edital_id, observed_at, lead(observed_at) OVER (PARTITION BY company, edital_id ORDER BY observed_at) AS seguinte
  FROM (SELECT DISTINCT company, edital_id, observed_at FROM analysis_versions)
  JOIN (SELECT company, edital_id FROM analysis_versions GROUP BY ALL HAVING count(*) > 1) USING (company, edital_id)
),
partes AS (
  SELECT company, edital_id, observed_at, ordinal, 'Requisito' AS parte, title, status AS codigo, 'requirements.status' AS coluna
  FROM requirement_versions
  UNION ALL
  SELECT company, edital_id, observed_at, ordinal, 'Alerta', title, severity, 'alerts.severity'
  FROM alert_versions
),
vistas AS (
  SELECT company, edital_id, observed_at, seguinte, parte, title AS titulo, ordem,
    coalesce(rotulo, codigo, 'não avaliado') AS estado,
    coalesce(chave(title), '') AS titulo_chave,
    row_number() OVER (PARTITION BY company, edital_id, observed_at, parte, coalesce(chave(title), '') ORDER BY ordinal) AS vez,
    min(observed_at) OVER (PARTITION BY company, edital_id, parte) AS primeira
  FROM partes
  JOIN leituras USING (company, edital_id, observed_at)
  LEFT JOIN rotulos USING (coluna, codigo)
),
-- The first requirements and the first alerts of a notice are no change, however late they came.
depois AS (SELECT * FROM vistas WHERE observed_at > primeira),
antes AS (SELECT * EXCLUDE (observed_at), seguinte AS observed_at FROM vistas WHERE seguinte IS NOT NULL)
SELECT company, edital_id, if(outra_grafia, orgao_mostrado, orgao) AS orgao, objeto, parte,
  coalesce(texto_limpo(coalesce(depois.titulo, antes.titulo)), 'sem título') AS titulo,
  antes.estado AS de, depois.estado AS para,
  CASE
    WHEN antes.estado IS NULL THEN 'novo'
    WHEN depois.estado IS NULL THEN 'retirado'
    -- The worse state has the lower order.
    WHEN depois.ordem > antes.ordem THEN 'melhor'
    WHEN depois.ordem < antes.ordem THEN 'pior'
    ELSE 'outro'
  END AS sentido,
  local_time(company, data_sessao) AS data_sessao_local,
  observed_at AS observado_em,
  local_time(company, observed_at)::DATE AS observado_dia,
  pncp_url
FROM depois
FULL JOIN antes USING (company, edital_id, observed_at, parte, titulo_chave, vez)
JOIN (SELECT company, edital_id, orgao, objeto, data_sessao, pncp_url FROM editais) USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, true AS outra_grafia, orgao AS orgao_mostrado FROM grafias
) USING (company, edital_id)
WHERE antes.estado IS DISTINCT FROM depois.estado
