-- Pareceres que mudaram
-- As últimas mudanças que vimos no parecer das análises.
SELECT observado_dia AS "Visto em", orgao AS "Órgão", objeto AS "Objeto", de_rotulo AS "De", para_rotulo AS "Para",
  sentido AS "Sentido", verdict_reason AS "Motivo"
FROM mudancas_parecer
ORDER BY observado_em DESC, edital_id
LIMIT 100
