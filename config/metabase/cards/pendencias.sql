-- Pendências de habilitação
-- Requisitos vermelhos e amarelos de editais em andamento, primeiro os de sessão mais próxima; as primeiras 200 linhas.
SELECT data_sessao_dia AS "Sessão em", dias_ate_sessao AS "Dias", cor AS "Cor", categoria_rotulo AS "Categoria",
  curto(titulo, 80) AS "Requisito", curto(exigido, 100) AS "Exigido", curto(situacao_atual, 100) AS "Situação atual",
  com_republicacao(nome_do_edital(orgao, numero), contado_no_numero) AS "Edital", uf AS "UF",
  situacao_sessao AS "Situação da sessão", fase AS "Fase", notas AS "Notas", pncp_url AS "PNCP"
FROM (
  FROM pendencias_habilitacao
  WHERE em_andamento [[AND chave(uf) = chave({{uf}})]]
  ORDER BY (situacao_sessao = 'futura') DESC NULLS LAST, abs(dias_ate_sessao), cor DESC, edital_id, ordinal
  LIMIT 200
)
