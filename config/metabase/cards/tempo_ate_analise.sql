-- Tempo até a análise
-- Editais ativos pela segunda-feira da semana em que chegaram: quantos já têm análise média ou profunda, e quantos dias se passaram até
-- a vermos pela primeira vez, o que pode ser depois de ela ficar pronta. O tempo não inclui os que ainda esperam nem os que chegaram
-- antes da primeira leitura da lista; as doze semanas mais recentes com editais.
SELECT semana AS "Semana", editais AS "Editais", analisados AS "Analisados", sem_analise AS "Sem análise", medidos AS "Medidos",
  round(dias_mediana, 1) AS "Mediana (dias)", round(dias_maximo, 1) AS "Maior (dias)"
FROM tempo_ate_analise
ORDER BY semana DESC
LIMIT 12
