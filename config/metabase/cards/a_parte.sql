-- À parte: sessão passada ou sem data
-- De editais em andamento: o que os números e gráficos de sessões por vir deixam de fora.
SELECT rotulo AS "Sessão", count(edital_id) AS "Editais", coalesce(sum(requisitos_vermelhos), 0)::BIGINT AS "Vermelhos",
  coalesce(sum(requisitos_amarelos), 0)::BIGINT AS "Amarelos", coalesce(sum(alertas_criticos), 0)::BIGINT AS "Alertas críticos",
  soma(valor_somado) AS "Valor"
FROM (VALUES ('passada', 'Passada'), ('sem data', 'Sem data')) AS apart (situacao_sessao, rotulo)
LEFT JOIN (FROM edital_resumo WHERE em_andamento [[AND chave(uf) = chave({{uf}})]]) USING (situacao_sessao)
GROUP BY rotulo
ORDER BY rotulo
LIMIT 100
