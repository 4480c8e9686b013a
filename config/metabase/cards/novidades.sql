-- Novidades das últimas 24 horas
-- Editais novos e o que mudou nos outros, nas 24 horas até a última leitura da lista: primeiro sessões, pareceres e valores; as cem
-- primeiras linhas.
SELECT observado_dia AS "Visto em", mudanca AS "Mudança", curto(de, 60) AS "De", curto(para, 60) AS "Para",
  impugnar_ate AS "Impugnar até", curto(orgao, 50) AS "Órgão", uf AS "UF", com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto", pncp_url AS "PNCP"
FROM novidades
JOIN (
  SELECT company, max(finished_at) AS listada_em FROM sync_runs
  WHERE scan_complete AND mode IN ('full', 'incremental') GROUP BY ALL
) USING (company)
WHERE observado_em > listada_em - INTERVAL 24 HOUR AND observado_em <= listada_em [[AND chave(uf) = chave({{uf}})]]
ORDER BY observado_dia DESC, mudanca_ordem, observado_em DESC, edital_id
LIMIT 100
