WITH pareceres AS (
  SELECT codigo AS parecer, rotulo, ordem FROM rotulos WHERE coluna = 'analyses.verdict_recommendation'
),
vistos AS (
  SELECT company, edital_id, observed_at, verdict_recommendation AS para, verdict_reason,
    lag(verdict_recommendation) OVER historico AS de,
    count(verdict_recommendation) OVER (historico ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS anteriores
  FROM analysis_versions
  WINDOW historico AS (PARTITION BY company, edital_id ORDER BY observed_at)
)
SELECT company, edital_id, if(outra_grafia, orgao_mostrado, orgao) AS orgao, objeto, de, para,
  coalesce(p_de.rotulo, de) AS de_rotulo,
  coalesce(p_para.rotulo, para) AS para_rotulo,
  CASE
    WHEN de IS NULL THEN 'novo'
    WHEN para IS NULL THEN 'retirado'
    -- The better verdict has the lower order.
    WHEN p_para.ordem < p_de.ordem THEN 'melhor'
    WHEN p_para.ordem > p_de.ordem THEN 'pior'
    ELSE 'outro'
  END AS sentido,
  verdict_reason,
  observed_at AS observado_em,
  local_time(company, observed_at)::DATE AS observado_dia,
  pncp_url, contado_no_numero
FROM vistos
JOIN (SELECT company, edital_id, orgao, objeto, pncp_url FROM editais) USING (company, edital_id)
LEFT JOIN (SELECT company, edital_id, contado_no_numero FROM republicacoes) USING (company, edital_id)
LEFT JOIN (
  SELECT company, edital_id, true AS outra_grafia, orgao AS orgao_mostrado FROM grafias
) USING (company, edital_id)
LEFT JOIN pareceres p_de ON p_de.parecer = de
LEFT JOIN pareceres p_para ON p_para.parecer = para
-- The first verdict of a notice is not a change.
WHERE anteriores > 0 AND de IS DISTINCT FROM para
