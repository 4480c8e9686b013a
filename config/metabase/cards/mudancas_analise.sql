-- Requisitos e alertas que mudaram
-- O que uma nova análise trouxe, retirou ou avaliou de outra forma; primeiro o que vimos por último.
SELECT observado_dia AS "Visto em", parte AS "Parte", curto(titulo, 70) AS "Requisito ou alerta", de AS "Antes", para AS "Agora",
  sentido AS "Sentido", data_sessao_local AS "Sessão", com_republicacao(nome_do_edital(orgao, numero), contado_no_numero) AS "Edital",
  com_republicacao(curto(objeto, 80), contado_no_numero) AS "Objeto", pncp_url AS "PNCP"
FROM mudancas_analise
ORDER BY observado_em DESC, edital_id, parte, titulo, de, para
LIMIT 100
