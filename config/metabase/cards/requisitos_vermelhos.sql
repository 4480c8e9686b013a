-- Requisitos vermelhos
-- Requisitos de habilitação que a empresa não atende, em editais em andamento.
SELECT count(*) AS "Requisitos"
FROM pendencias_habilitacao
WHERE em_andamento AND cor = 'vermelho' [[AND uf = upper(trim({{uf}}))]]
