SELECT company, edital_id, ordinal, orgao_cnpj, orgao, uf, numero, fase, em_andamento, data_sessao_dia,
  numero_item, numero_lote, descricao, quantidade, unidade_medida, valor_unitario_estimado, valor_total,
  material_ou_servico, ai_reasoning, ai_confidence, situacao_sessao,
  CASE WHEN valor_total <> 0 AND NOT suspeito THEN valor_total END AS valor_total_informado,
  suspeito AS valor_total_suspeito,
  coalesce(rotulo, material_ou_servico) AS material_ou_servico_rotulo
FROM (
  SELECT *, item_suspeito(valor_total, teto_dos_itens(valor_estimado)) AS suspeito
  FROM items JOIN editais_ativos USING (company, edital_id)
  WHERE ai_selected
)
LEFT JOIN (SELECT codigo, rotulo FROM rotulos WHERE coluna = 'items.material_ou_servico') ON codigo = material_ou_servico
