-- Próximos 7 dias
-- O trabalho de cada dia: as sessões, o que falta para a habilitação nelas, e os prazos de impugnação e esclarecimento.
SELECT dia AS "Dia", dia_da_semana AS "Dia da semana", feriado AS "Feriado", sessoes AS "Sessões",
  sessoes_confirmadas AS "Confirmadas", requisitos_vermelhos AS "Vermelhos", requisitos_amarelos AS "Amarelos",
  valor_total AS "Valor das sessões", alertas_com_prazo AS "Alertas com prazo"
FROM carga_de_trabalho
WHERE dias_ate < 7
ORDER BY dia
LIMIT 100
