-- Capital por semana
-- Garantias e investimento que os editais em andamento exigem, pela segunda-feira da semana da sessão.
SELECT semana AS "Semana", garantia_proposta AS "Garantias de proposta",
  garantia_contratual AS "Garantias contratuais", investimento AS "Investimento"
FROM capital_por_semana
ORDER BY semana
LIMIT 12
