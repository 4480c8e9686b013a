-- Exclusivos para ME/EPP
-- Editais ativos e seu valor, conforme sejam ou não exclusivos para microempresas e empresas de pequeno porte, segundo a análise.
SELECT participacao AS "Participação", editais AS "Editais", editais_em_andamento AS "Em andamento", confirmados AS "Confirmados",
  valor_em_andamento AS "Valor em andamento", valor_sessao_futura AS "Valor em disputa", valor_total AS "Valor total"
FROM participacao_me_epp
ORDER BY participacao
LIMIT 100
