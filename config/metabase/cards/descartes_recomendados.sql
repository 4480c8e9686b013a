-- Decidido contra o parecer
-- Descartados com parecer Participar, por motivo, e confirmados com Não recomendado: primeiro os de sessão por vir, que ainda se podem
-- rever; depois, os das sessões desta semana e das 11 anteriores.
SELECT if(situacao_sessao = 'futura', 'por vir', 'passada') AS "Quando",
  if(status = 'discarded', curto(coalesce(discard_reason, 'não informado'), 80), 'Participação confirmada') AS "Motivo",
  recomendacao AS "Parecer", count(*) AS "Editais", count(*) FILTER (valor_estimado_informado IS NULL) AS "Sem valor",
  soma(valor_somado) AS "Valor total"
FROM edital_resumo
WHERE (situacao_sessao = 'futura' OR situacao_sessao = 'passada'
    AND date_trunc('week', data_sessao_dia)::DATE > date_trunc('week', data_sessao_dia - dias_ate_sessao::INTEGER)::DATE - 84)
  AND (status = 'discarded' AND verdict_recommendation = 'participar'
    OR status <> 'discarded' AND verdict_recommendation = 'nao_recomendado' AND participation_confirmed)
GROUP BY ALL
ORDER BY "Quando" DESC, "Valor total" DESC, "Editais" DESC, "Motivo", "Parecer"
LIMIT 50
