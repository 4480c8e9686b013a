-- Each analysis of a notice is compared with the one before. What has the same title, in any spelling, and the same state is
-- unchanged; what is left of a title is compared in the order of its states.
WITH analises AS (
  SELECT company, edital_id, observed_at, run_id,
    row_number() OVER (PARTITION BY company, edital_id ORDER BY observed_at, run_id) AS versao
  FROM analysis_versions
  JOIN (SELECT company, edital_id FROM analysis_versions GROUP BY ALL HAVING count(*) > 1) USING (company, edital_id)
),
partes AS (
  SELECT company, edital_id, observed_at, run_id, ordinal, 'Requisito' AS parte, title AS titulo, status AS codigo,
    'requirements.status' AS coluna
  FROM requirement_versions
  UNION ALL
  SELECT company, edital_id, observed_at, run_id, ordinal,
    if(type IS NOT DISTINCT FROM 'opportunity', 'Oportunidade', 'Alerta'), title, severity, 'alerts.severity'
  FROM alert_versions
),
vistas AS (
  SELECT *, min(versao) OVER (PARTITION BY company, edital_id, parte) AS primeira,
    row_number() OVER (PARTITION BY company, edital_id, versao, parte, titulo_chave, estado ORDER BY ordinal) AS vez
  FROM (
    SELECT company, edital_id, versao, ordinal, parte, titulo, coalesce(chave(titulo), '') AS titulo_chave,
      coalesce(rotulo, codigo, 'não avaliado') AS estado,
      -- The worse state has the lower order. An opportunity is not a risk, whatever its severity.
      if(parte = 'Oportunidade', NULL, ordem) AS ordem
    FROM partes
    JOIN analises USING (company, edital_id, observed_at, run_id)
    LEFT JOIN rotulos USING (coluna, codigo)
  )
),
-- The first requirements and the first alerts of a notice are no change, however late they came.
depois AS (SELECT * FROM vistas WHERE versao > primeira),
antes AS (SELECT * EXCLUDE (versao), versao + 1 AS versao FROM vistas),
novos AS (
  SELECT *, row_number() OVER (PARTITION BY company, edital_id, versao, parte, titulo_chave ORDER BY ordem, ordinal) AS lugar
  FROM depois ANTI JOIN antes USING (company, edital_id, versao, parte, titulo_chave, estado, vez)
),
antigos AS (
  SELECT *, row_number() OVER (PARTITION BY company, edital_id, versao, parte, titulo_chave ORDER BY ordem, ordinal) AS lugar
  FROM antes ANTI JOIN depois USING (company, edital_id, versao, parte, titulo_chave, estado, vez)
)
SELECT company, edital_id, if(outra_grafia, orgao_mostrado, orgao) AS orgao, numero, objeto, parte,
  coalesce(texto_limpo(coalesce(novos.titulo, antigos.titulo)), 'sem título') AS titulo,
  antigos.estado AS de, novos.estado AS para,
  CASE
    WHEN antigos.estado IS NULL THEN 'novo'
    WHEN novos.estado IS NULL THEN 'retirado'
    WHEN novos.ordem > antigos.ordem THEN 'melhor'
    WHEN novos.ordem < antigos.ordem THEN 'pior'
    ELSE 'outro'
  END AS sentido,
  local_time(company, data_sessao) AS data_sessao_local,
  observed_at AS observado_em,
  local_time(company, observed_at)::DATE AS observado_dia,
  pncp_url, contado_no_numero
FROM novos
FULL JOIN antigos USING (company, edital_id, versao, parte, titulo_chave, lugar)
-- After the last analysis there is none to compare with.
JOIN analises USING (company, edital_id, versao)
JOIN (SELECT company, edital_id, orgao, numero, objeto, data_sessao, pncp_url FROM editais) USING (company, edital_id)
LEFT JOIN (SELECT company, edital_id, contado_no_numero FROM republicacoes) USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, true AS outra_grafia, orgao AS orgao_mostrado FROM grafias
) USING (company, edital_id)
