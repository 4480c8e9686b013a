-- Pendências de habilitação
-- Requisitos vermelhos e amarelos de editais em andamento, primeiro os de sessão mais próxima.
SELECT data_sessao_dia AS "Sessão", dias_ate_sessao AS "Faltam (dias)", situacao_sessao AS "Situação da sessão", cor AS "Cor",
  categoria_rotulo AS "Categoria", titulo AS "Requisito", exigido AS "Exigido", situacao_atual AS "Situação atual",
  orgao AS "Órgão", uf AS "UF", numero AS "Número", fase AS "Fase", notas AS "Notas"
FROM pendencias_habilitacao
WHERE em_andamento [[AND chave(uf) = chave({{uf}})]]
ORDER BY (situacao_sessao = 'futura') DESC NULLS LAST, abs(dias_ate_sessao), cor DESC, edital_id, ordinal
