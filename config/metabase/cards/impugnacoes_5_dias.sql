-- Impugnações a vencer em 5 dias
-- Editais em andamento cujo último dia para impugnar, segundo o edital ou a lei, é nos próximos cinco dias.
SELECT count(*) AS "Editais"
FROM agenda_sessoes
WHERE dias_ate_impugnacao BETWEEN 0 AND 5 [[AND uf = {{uf}}]]
