WITH valores AS (
  SELECT company, date_trunc('week', data_sessao_dia)::DATE AS semana,
    coalesce(participation_confirmed, false) AS confirmado,
    CASE WHEN NOT valor_suspeito(pricing_garantia_proposta) THEN pricing_garantia_proposta END::DECIMAL(20, 4)
      AS garantia_proposta,
    CASE WHEN NOT valor_suspeito(pricing_garantia_contratual) THEN pricing_garantia_contratual END::DECIMAL(20, 4)
      AS garantia_contratual,
    CASE WHEN NOT valor_suspeito(pricing_investimento_total) THEN pricing_investimento_total END::DECIMAL(20, 4)
      AS investimento,
    -- The guarantee of the contract and the investment are due when the contract is signed.
    coalesce(garantia_contratual, 0) + coalesce(investimento, 0) AS na_assinatura,
    coalesce(garantia_proposta, 0) + na_assinatura AS capital
  FROM editais_ativos
  LEFT JOIN analyses USING (company, edital_id)
  WHERE em_andamento AND situacao_sessao = 'futura' AND contado_no_edital IS NULL
)
SELECT company, semana,
  count(*) AS editais,
  count(*) FILTER (coalesce(garantia_proposta, garantia_contratual, investimento) IS NULL) AS sem_capital,
  coalesce(sum(garantia_proposta), 0)::DOUBLE AS garantia_proposta,
  coalesce(sum(garantia_contratual), 0)::DOUBLE AS garantia_contratual,
  coalesce(sum(investimento), 0)::DOUBLE AS investimento,
  coalesce(sum(capital), 0)::DOUBLE AS capital_total,
  count(*) FILTER (confirmado) AS confirmados,
  coalesce(sum(capital) FILTER (confirmado), 0)::DOUBLE AS capital_confirmado,
  coalesce(sum(garantia_proposta) FILTER (confirmado), 0)::DOUBLE AS na_sessao_confirmado,
  coalesce(sum(garantia_proposta) FILTER (NOT confirmado), 0)::DOUBLE AS na_sessao_a_confirmar,
  coalesce(sum(na_assinatura) FILTER (confirmado), 0)::DOUBLE AS na_assinatura_confirmado,
  coalesce(sum(na_assinatura) FILTER (NOT confirmado), 0)::DOUBLE AS na_assinatura_a_confirmar
FROM valores
GROUP BY ALL
ORDER BY company, semana
