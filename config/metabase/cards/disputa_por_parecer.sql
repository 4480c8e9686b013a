-- Valor em disputa por parecer
-- Editais em andamento com sessão por vir. À parte, os de registro de preços (RP), que não obriga o órgão a comprar; um edital cuja
-- análise não o informa não está entre eles. Os itens selecionados contam também em editais sem valor informado.
SELECT coalesce(recomendacao, 'Sem parecer') AS "Parecer",
  count(*) FILTER (NOT rp) AS "Editais",
  soma(CASE WHEN NOT rp THEN valor_somado END) AS "Valor estimado",
  soma(CASE WHEN NOT rp THEN selecionados END) AS "Itens selecionados",
  count(*) FILTER (rp) AS "Editais RP",
  soma(CASE WHEN rp THEN valor_somado END) AS "Valor RP",
  soma(CASE WHEN rp THEN selecionados END) AS "Itens RP",
  count(*) FILTER (valor_estimado_informado IS NULL) AS "Sem valor"
FROM (SELECT *, coalesce(registro_de_precos, false) AS rp, CASE WHEN contado_no_edital IS NULL THEN itens_selecionados_valor END AS selecionados
  FROM edital_resumo)
WHERE em_andamento AND situacao_sessao = 'futura'
GROUP BY verdict_recommendation, recomendacao
ORDER BY list_position(['participar', 'cautela', 'nao_recomendado'], verdict_recommendation), "Parecer"
LIMIT 100
