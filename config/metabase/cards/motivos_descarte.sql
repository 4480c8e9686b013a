-- Motivos de descarte
-- Por que editais foram descartados; os doze motivos mais frequentes.
SELECT curto(motivo, 30) AS "Motivo", editais AS "Editais"
FROM motivos_descarte
ORDER BY editais DESC, motivo
LIMIT 12
