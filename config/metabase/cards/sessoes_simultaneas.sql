-- Sessões simultâneas
-- Sessões por vir de editais em andamento que começam na mesma hora; as primeiras 50 linhas.
SELECT data_sessao_local AS "Sessão", dias_ate_sessao AS "Dias", sessoes AS "Sessões", sessoes_confirmadas AS "Confirmadas",
  valor_total AS "Valor", curto(orgaos, 120) AS "Órgãos"
FROM sessoes_simultaneas
ORDER BY data_sessao_local
LIMIT 50
