-- Requisitos vermelhos
-- Requisitos de habilitação que a empresa não atende, em editais em andamento.
SELECT count(*) AS "Requisitos"
FROM pendencias_habilitacao
WHERE em_andamento AND cor = 'vermelho' [[AND chave(uf) = chave({{uf}})]]
