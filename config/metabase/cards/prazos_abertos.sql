-- Prazos abertos
-- Alertas de editais em andamento que pedem impugnação ou esclarecimento e cujo prazo não passou.
SELECT count(*) AS "Alertas"
FROM alertas_juridicos
WHERE em_andamento AND dias_ate_prazo >= 0 [[AND chave(uf) = chave({{uf}})]]
