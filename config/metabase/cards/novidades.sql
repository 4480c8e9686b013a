-- Novidades das últimas 24 horas
-- Editais novos e o que mudou nos outros, nas 24 horas até a última leitura completa da lista; o mais recente primeiro.
SELECT observado_dia AS "Visto em", mudanca AS "Mudança", curto(de, 60) AS "De", curto(para, 60) AS "Para",
  ultimo_dia_impugnacao AS "Impugnar até", curto(orgao, 60) AS "Órgão", uf AS "UF", curto(objeto, 100) AS "Objeto", pncp_url AS "PNCP"
FROM novidades JOIN (SELECT company, ultima_boa_em FROM frescor) USING (company)
WHERE observado_em > ultima_boa_em - INTERVAL 24 HOUR [[AND chave(uf) = chave({{uf}})]]
ORDER BY observado_em DESC, edital_id, mudanca
LIMIT 100
