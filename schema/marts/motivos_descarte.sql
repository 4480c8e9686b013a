SELECT company,
  coalesce(discard_reason, 'não informado') AS motivo,
  count(*) AS editais,
  coalesce(sum(valor_estimado_informado::DECIMAL(20, 4)), 0)::DOUBLE AS valor_total,
  max(updated_at) AS ultimo_em
FROM editais_ativos
WHERE status = 'discarded'
GROUP BY ALL
ORDER BY company, editais DESC, motivo
