-- Retificações depois da análise
-- O que mudou em editais já analisados ou confirmados: sessão, valor ou objeto; as primeiras 50 linhas, das mais recentes às mais antigas.
SELECT observado_dia AS "Visto em", mudanca AS "Mudança", curto(de, 60) AS "De", curto(para, 60) AS "Para", impugnar_ate AS "Impugnar até",
  curto(orgao, 50) AS "Órgão", uf AS "UF", com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto", pncp_url AS "PNCP"
FROM retificacoes
WHERE true [[AND chave(uf) = chave({{uf}})]]
ORDER BY observado_dia DESC, mudanca_ordem, observado_em DESC, edital_id
LIMIT 50
