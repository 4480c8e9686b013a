SELECT company, edital_id, ordinal, orgao_cnpj, orgao, uf, numero, fase, em_andamento, data_sessao_dia,
  numero_item, numero_lote, descricao, quantidade, unidade_medida, valor_unitario_estimado, valor_total,
  material_ou_servico, ai_reasoning, ai_confidence, situacao_sessao,
  CASE WHEN valor_total <> 0 AND NOT item_suspeito(valor_total, valor_estimado_informado) THEN valor_total END AS valor_total_informado,
  item_suspeito(valor_total, valor_estimado_informado) AS valor_total_suspeito,
  coalesce(rotulo, material_ou_servico) AS material_ou_servico_rotulo
FROM items
JOIN editais_ativos USING (company, edital_id)
LEFT JOIN (SELECT codigo, rotulo FROM rotulos WHERE coluna = 'items.material_ou_servico') ON codigo = material_ou_servico
WHERE ai_selected
