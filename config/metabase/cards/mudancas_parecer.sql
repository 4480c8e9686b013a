-- Pareceres que mudaram
-- As últimas mudanças que vimos no parecer das análises.
SELECT observado_dia AS "Visto em", curto(orgao, 50) AS "Órgão", com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto", de_rotulo AS "De", para_rotulo AS "Para",
  sentido AS "Sentido", curto(verdict_reason, 90) AS "Motivo", pncp_url AS "PNCP"
FROM mudancas_parecer
ORDER BY observado_em DESC, edital_id
LIMIT 100
