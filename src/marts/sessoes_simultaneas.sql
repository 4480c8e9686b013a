-- A session without a time of day coincides with no other, and a session that is published twice is one.
SELECT company, data_sessao_local, data_sessao_dia, dias_ate_sessao, count(*) AS sessoes,
  count(*) FILTER (participation_confirmed) AS sessoes_confirmadas,
  -- 0 would say that these purchases cost nothing.
  CASE WHEN count(valor_estimado_informado) > 0 THEN soma(valor_estimado_informado) END AS valor_total,
  string_agg(DISTINCT orgao, '; ' ORDER BY orgao) AS orgaos
FROM agenda_sessoes
WHERE data_sessao_local <> data_sessao_dia AND contado_no_edital IS NULL
GROUP BY company, data_sessao_local, data_sessao_dia, dias_ate_sessao
HAVING count(*) > 1
ORDER BY company, data_sessao_local
