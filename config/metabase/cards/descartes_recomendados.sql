-- Descartados contra o parecer
-- Editais descartados embora o parecer seja Participar ou Cautela, por motivo; os de maior valor primeiro.
SELECT curto(motivo, 80) AS "Motivo", recomendacao AS "Parecer", editais AS "Editais", sem_valor AS "Sem valor",
  valor_total AS "Valor total"
FROM descartes_recomendados
ORDER BY valor_total DESC, editais DESC, motivo, recomendacao
LIMIT 50
