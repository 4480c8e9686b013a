SELECT company,
  coalesce(discard_reason, 'não informado') AS motivo,
  verdict_recommendation, recomendacao,
  count(*) AS editais,
  count(*) FILTER (valor_estimado_informado IS NULL) AS sem_valor,
  soma(valor_somado) AS valor_total,
  max(updated_at) AS ultimo_em
FROM editais_ativos
JOIN analyses USING (company, edital_id)
-- Excludes nao_recomendado, and codes that are new in the API.
JOIN (
  SELECT codigo AS verdict_recommendation, rotulo AS recomendacao FROM rotulos
  WHERE coluna = 'analyses.verdict_recommendation' AND codigo IN ('participar', 'cautela')
) USING (verdict_recommendation)
WHERE status = 'discarded'
GROUP BY ALL
ORDER BY company, valor_total DESC, editais DESC, motivo, verdict_recommendation
