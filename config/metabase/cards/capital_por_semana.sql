-- Capital por semana
-- O que os editais em andamento exigem na sessão (garantia de proposta) e na assinatura (garantia contratual e investimento),
-- pela segunda-feira da semana da sessão; confirmado, e a confirmar; esta semana e as onze seguintes.
SELECT semana AS "Semana",
  na_sessao_confirmado AS "Na sessão, confirmado", na_sessao_a_confirmar AS "Na sessão, a confirmar",
  na_assinatura_confirmado AS "Na assinatura, confirmado", na_assinatura_a_confirmar AS "Na assinatura, a confirmar"
FROM capital_por_semana
WHERE semana < date_trunc('week', local_time(company, agora()))::DATE + 84
ORDER BY semana
LIMIT 100
