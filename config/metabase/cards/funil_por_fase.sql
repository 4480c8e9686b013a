-- Funil por fase
-- Editais em andamento com sessão por vir que estão hoje em cada fase ou adiante dela.
SELECT fase AS "Fase",
  sum(editais_sessao_futura) OVER (ORDER BY fase_ordem DESC)::BIGINT AS "Na fase ou adiante"
FROM funil
WHERE em_andamento AND fase_ordem <= 4
ORDER BY fase_ordem
LIMIT 100
