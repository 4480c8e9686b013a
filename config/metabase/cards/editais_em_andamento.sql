-- Editais em andamento
-- Em triagem, análise, precificação ou prontos: nem descartados nem vencidos. A sessão pode já ter passado.
SELECT coalesce(sum(editais), 0)::BIGINT AS "Editais"
FROM funil
WHERE em_andamento
