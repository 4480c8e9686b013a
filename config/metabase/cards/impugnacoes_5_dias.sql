-- Impugnar em 5 dias
-- Editais em andamento com alerta que pede impugnação, fora oportunidades, e cujo último dia, segundo o edital ou a lei, é hoje ou nos quatro
-- dias seguintes.
SELECT count(DISTINCT edital_id) AS "Editais"
FROM alertas_juridicos
WHERE em_andamento AND NOT oportunidade AND action_type = 'impugnacao' AND dias_ate_prazo BETWEEN 0 AND 4
  [[AND chave(uf) = chave({{uf}})]]
