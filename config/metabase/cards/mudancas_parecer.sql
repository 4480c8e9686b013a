-- Pareceres que mudaram
-- As últimas mudanças que vimos no parecer das análises.
SELECT observado_dia AS "Visto em", curto(orgao, 50) AS "Órgão", curto(objeto, 80) AS "Objeto", de_rotulo AS "De", para_rotulo AS "Para",
  sentido AS "Sentido", curto(verdict_reason, 120) AS "Motivo"
FROM mudancas_parecer
ORDER BY observado_em DESC, edital_id
LIMIT 100
