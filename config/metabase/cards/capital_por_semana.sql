-- Capital por semana
-- O que os editais em andamento exigem na sessão (garantia de proposta) e na assinatura (garantia contratual e investimento),
-- pela segunda-feira da semana da sessão; confirmado, e a confirmar; esta semana e as onze seguintes.
SELECT semana AS "Semana",
  coalesce(sum(na_sessao_confirmado), 0) AS "Na sessão, confirmado",
  coalesce(sum(na_sessao_a_confirmar), 0) AS "Na sessão, a confirmar",
  coalesce(sum(na_assinatura_confirmado), 0) AS "Na assinatura, confirmado",
  coalesce(sum(na_assinatura_a_confirmar), 0) AS "Na assinatura, a confirmar"
FROM semanas(0, 11)
LEFT JOIN capital_por_semana USING (semana)
GROUP BY semana
ORDER BY semana
LIMIT 100
