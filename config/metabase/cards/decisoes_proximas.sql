-- Para decidir nos próximos dias
-- O que se decide nos próximos dias, pelos critérios de *Para decidir hoje*; as primeiras 50 linhas.
SELECT decidir_ate AS "Até", dias_ate_decidir AS "Dias", decisao AS "Decisão", recomendacao AS "Parecer",
  nivel_analise AS "Análise", curto(orgao, 50) AS "Órgão", uf AS "UF", com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto",
  valor_estimado_informado AS "Valor", data_sessao_local AS "Sessão", pncp_url AS "PNCP"
FROM decisoes
WHERE dias_ate_decidir > 0 [[AND chave(uf) = chave({{uf}})]]
ORDER BY decidir_ate, valor_estimado_informado DESC NULLS LAST, edital_id
LIMIT 50
