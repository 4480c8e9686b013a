-- Regularidade das leituras
-- Dos últimos 14 dias, quantas execuções leram todos os editais e quanto tempo se ficou sem uma boa; um dia sem execução aparece também.
-- Enquanto nada muda, é normal um intervalo de até uma hora.
SELECT dia AS "Dia", execucoes AS "Execuções", execucoes_boas AS "Boas", round(100 * parcela_boa)::INTEGER AS "Boas (%)",
  round(maior_intervalo_horas, 1) AS "Maior intervalo (h)"
FROM servico
ORDER BY dia DESC
LIMIT 14
