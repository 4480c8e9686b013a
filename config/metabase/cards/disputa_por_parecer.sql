-- Valor em disputa por parecer
-- Editais em andamento com sessão por vir. À parte, os de registro de preços (RP), que não obriga o órgão a comprar; um edital cuja
-- análise não o informa não está entre eles. Os itens selecionados valem no máximo o que vale o edital; os de editais sem valor
-- confiável, que nada limita, não entram nessas somas e têm uma coluna só deles.
SELECT coalesce(recomendacao, 'Sem parecer') AS "Parecer",
  count(*) FILTER (NOT rp) AS "Editais",
  soma(CASE WHEN NOT rp THEN valor_somado END) AS "Valor estimado",
  soma(CASE WHEN NOT rp THEN itens_selecionados_valor_somado END) AS "Itens selecionados",
  count(*) FILTER (rp) AS "Editais RP",
  soma(CASE WHEN rp THEN valor_somado END) AS "Valor RP",
  soma(CASE WHEN rp THEN itens_selecionados_valor_somado END) AS "Itens RP",
  count(*) FILTER (valor_estimado_informado IS NULL) AS "Sem valor",
  soma(CASE WHEN contado_no_edital IS NULL AND itens_selecionados_valor_somado IS NULL THEN itens_selecionados_valor END)
    AS "Itens sem valor do edital"
FROM (SELECT *, coalesce(registro_de_precos, false) AS rp FROM edital_resumo)
WHERE em_andamento AND situacao_sessao = 'futura'
GROUP BY verdict_recommendation, recomendacao
ORDER BY list_position(['participar', 'cautela', 'nao_recomendado'], verdict_recommendation), "Parecer"
LIMIT 100
