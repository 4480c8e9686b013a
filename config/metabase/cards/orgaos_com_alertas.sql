-- Órgãos com mais alertas
-- Alertas críticos e altos de editais em andamento com sessão por vir, sem as oportunidades, por órgão.
SELECT coalesce(curto(any_value(o.orgao), 60), 'não informado') AS "Órgão", count(*) AS "Alertas"
FROM alertas_juridicos a
-- The CNPJ identifies a buyer: names are shared, and change. The name shown is that of its latest notice.
LEFT JOIN orgaos o
  ON o.company = a.company AND coalesce(o.orgao_cnpj, o.orgao) IS NOT DISTINCT FROM coalesce(a.orgao_cnpj, a.orgao)
WHERE em_andamento AND situacao_sessao = 'futura' AND NOT oportunidade AND severidade_ordem <= 2 [[AND chave(a.uf) = chave({{uf}})]]
GROUP BY coalesce(a.orgao_cnpj, a.orgao)
ORDER BY "Alertas" DESC, "Órgão"
LIMIT 12
