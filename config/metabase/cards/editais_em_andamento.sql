-- Editais com sessão por vir
-- Em triagem, análise, precificação ou prontos: nem descartados nem vencidos. Os de sessão passada e sem data estão à parte.
SELECT coalesce(sum(editais_sessao_futura), 0)::BIGINT AS "Editais"
FROM funil
WHERE em_andamento
