-- Valor em disputa por parecer
-- Editais em andamento com sessão por vir, e o valor dos itens selecionados. À parte, os de registro de preços (RP): neles o
-- órgão não se compromete a comprar.
SELECT coalesce(recomendacao, 'Sem parecer') AS "Parecer",
  count(*) FILTER (NOT rp) AS "Editais",
  soma(CASE WHEN NOT rp THEN valor_estimado_informado END) AS "Valor estimado",
  soma(CASE WHEN NOT rp THEN itens_selecionados_valor END) AS "Itens selecionados",
  count(*) FILTER (rp) AS "Editais RP",
  soma(CASE WHEN rp THEN valor_estimado_informado END) AS "Valor RP",
  soma(CASE WHEN rp THEN itens_selecionados_valor END) AS "Itens RP"
FROM (SELECT *, coalesce(registro_de_precos, false) AS rp FROM edital_resumo)
WHERE em_andamento AND situacao_sessao = 'futura'
GROUP BY verdict_recommendation, recomendacao
ORDER BY list_position(['participar', 'cautela', 'nao_recomendado'], verdict_recommendation), "Parecer"
