-- Mapa de prazos
-- Alertas cujo prazo de impugnação ou esclarecimento acaba em cada dia das próximas oito semanas.
SELECT semana AS "Semana",
  max(alertas_com_prazo) FILTER (dia_da_semana_ordem = 1) AS "Seg",
  max(alertas_com_prazo) FILTER (dia_da_semana_ordem = 2) AS "Ter",
  max(alertas_com_prazo) FILTER (dia_da_semana_ordem = 3) AS "Qua",
  max(alertas_com_prazo) FILTER (dia_da_semana_ordem = 4) AS "Qui",
  max(alertas_com_prazo) FILTER (dia_da_semana_ordem = 5) AS "Sex",
  max(alertas_com_prazo) FILTER (dia_da_semana_ordem = 6) AS "Sáb",
  max(alertas_com_prazo) FILTER (dia_da_semana_ordem = 7) AS "Dom"
FROM carga_de_trabalho
GROUP BY semana
ORDER BY semana
LIMIT 100
