-- Tempo até a análise
-- Editais ativos pela segunda-feira da semana em que chegaram: quantos já têm análise, e em quantos dias nós a vimos pela primeira vez.
-- O tempo é só dos que chegaram depois da primeira leitura da lista; doze semanas.
SELECT semana AS "Semana", editais AS "Editais", analisados AS "Analisados", sem_analise AS "Sem análise", medidos AS "Medidos",
  round(dias_mediana, 1) AS "Mediana (dias)", round(dias_maximo, 1) AS "Maior (dias)"
FROM tempo_ate_analise
ORDER BY semana DESC
LIMIT 12
