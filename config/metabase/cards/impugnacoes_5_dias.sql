-- Impugnações a vencer em 5 dias
-- Editais em andamento cujo último dia para impugnar, segundo o edital ou a lei, é hoje ou nos quatro dias seguintes.
SELECT count(*) AS "Editais"
FROM edital_resumo
WHERE em_andamento AND dias_ate_impugnacao BETWEEN 0 AND 4 [[AND chave(uf) = chave({{uf}})]]
