SELECT company,
  coalesce(discard_reason, 'não informado') AS motivo,
  count(*) AS editais,
  soma(valor_somado) AS valor_total,
  max(updated_at) AS ultimo_em
FROM editais_ativos
WHERE status = 'discarded'
GROUP BY ALL
ORDER BY company, editais DESC, motivo
