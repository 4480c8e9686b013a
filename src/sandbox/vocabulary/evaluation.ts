type Demand = {
  readonly category: string
  readonly title: string
  readonly required: string
  /** The company's current state, by the requirement's colour. */
  readonly current: Readonly<Record<'green' | 'yellow' | 'red', string>>
}

const papers = {
  green: 'Documento vigente no cadastro da empresa.',
  yellow: 'Documento vence antes da sessão; renovação em andamento.',
  red: 'Documento não localizado no cadastro da empresa.',
} as const

/** Requirements in every category of docs/contract.md#requirement. */
export const DEMANDS: readonly Demand[] = [
  {
    category: 'habilitacao_juridica',
    title: 'Ato constitutivo',
    required:
      'Ato constitutivo, estatuto ou contrato social em vigor, devidamente registrado na Junta Comercial, com as alterações ou a consolidação.',
    current: papers,
  },
  {
    category: 'habilitacao_juridica',
    title: 'Procuração do representante',
    required:
      'Procuração pública ou particular com poderes para formular lances, negociar preços e praticar os demais atos do certame.',
    current: papers,
  },
  {
    category: 'qualificacao_tecnica',
    title: 'Atestado de capacidade técnica',
    required:
      'Atestado emitido por pessoa jurídica de direito público ou privado que comprove o fornecimento de, no mínimo, 50 % das quantidades do item ou lote.',
    current: {
      green: 'Três atestados somam 82 % das quantidades; atendem ao percentual.',
      yellow: 'Atestados somam 46 % das quantidades; falta complementar.',
      red: 'Não há atestado para objeto semelhante.',
    },
  },
  {
    category: 'qualificacao_tecnica',
    title: 'Registro no conselho profissional',
    required:
      'Prova de registro da empresa e do responsável técnico no conselho competente (CREA, CRF, CRA ou CRQ), dentro da validade.',
    current: papers,
  },
  {
    category: 'qualificacao_economica',
    title: 'Balanço patrimonial e índices',
    required:
      'Balanço dos dois últimos exercícios, com índices de Liquidez Geral, Solvência Geral e Liquidez Corrente superiores a 1,0.',
    current: {
      green: 'LG 1,48; SG 1,92; LC 1,61. Atende.',
      yellow: 'LG 0,97; exige patrimônio líquido mínimo de 10 % em substituição.',
      red: 'Balanço do último exercício ainda não registrado.',
    },
  },
  {
    category: 'qualificacao_economica',
    title: 'Certidão negativa de falência',
    required: 'Certidão expedida pelo distribuidor da sede da licitante há no máximo 60 dias.',
    current: papers,
  },
  {
    category: 'regularidade_fiscal',
    title: 'CND federal conjunta',
    required:
      'Certidão negativa, ou positiva com efeitos de negativa, de tributos federais e dívida ativa da União, inclusive contribuições sociais.',
    current: papers,
  },
  {
    category: 'regularidade_fiscal',
    title: 'Regularidade junto ao FGTS',
    required: 'Certificado de Regularidade do FGTS (CRF) emitido pela Caixa Econômica Federal.',
    current: papers,
  },
  {
    category: 'regularidade_fiscal',
    title: 'Regularidade estadual e municipal',
    required: 'Certidões negativas de débitos com as fazendas estadual e municipal da sede da licitante.',
    current: papers,
  },
  {
    category: 'regularidade_trabalhista',
    title: 'CNDT',
    required: 'Certidão Negativa de Débitos Trabalhistas, na forma do Título VII-A da CLT.',
    current: papers,
  },
  {
    category: 'regularidade_trabalhista',
    title: 'Cumprimento da convenção coletiva',
    required:
      'Planilha de custos que respeite os pisos salariais e benefícios da convenção coletiva indicada no edital.',
    current: {
      green: 'Planilha padrão da empresa já adota a convenção indicada.',
      yellow: 'Convenção com data-base vencida; conferir o novo piso.',
      red: 'Planilha da empresa usa convenção de outra base territorial.',
    },
  },
  {
    category: 'declaracoes',
    title: 'Declaração de elaboração independente de proposta',
    required: 'Declaração assinada pelo representante legal, conforme modelo do anexo do edital.',
    current: papers,
  },
  {
    category: 'declaracoes',
    title: 'Declaração de reserva de cargos',
    required:
      'Declaração de que cumpre a reserva de cargos para pessoa com deficiência e para reabilitado da Previdência Social.',
    current: papers,
  },
  {
    category: 'amostras',
    title: 'Amostra em até 5 dias úteis',
    required:
      'A licitante classificada em primeiro lugar apresentará amostra dos itens indicados, identificada com marca, modelo e número do certame.',
    current: {
      green: 'Amostras disponíveis em estoque.',
      yellow: 'Amostra depende do fabricante; prazo de 7 dias.',
      red: 'Não há amostra da marca cotada.',
    },
  },
  {
    category: 'visita_tecnica',
    title: 'Visita técnica ou declaração de conhecimento',
    required:
      'Vistoria agendada até dois dias úteis antes da sessão, substituível por declaração de pleno conhecimento das condições locais.',
    current: {
      green: 'Declaração de pleno conhecimento pronta.',
      yellow: 'Visita a agendar com o setor demandante.',
      red: 'Prazo de agendamento se encerra hoje.',
    },
  },
  {
    category: 'certificacoes',
    title: 'Certificação do produto',
    required: 'Certificado de conformidade Inmetro ou registro na ANVISA, conforme a natureza do item.',
    current: papers,
  },
  {
    category: 'garantias',
    title: 'Garantia de execução',
    required:
      'Garantia de 5 % do valor do contrato, em caução, seguro-garantia ou fiança bancária, em até 10 dias úteis da assinatura.',
    current: {
      green: 'Limite disponível na seguradora.',
      yellow: 'Limite da seguradora cobre apenas parte do valor.',
      red: 'Sem limite de seguro-garantia disponível.',
    },
  },
  {
    category: 'programa_integridade',
    title: 'Programa de integridade',
    required:
      'Implantação de programa de integridade em até seis meses, nas contratações de grande vulto (art. 25, § 4º, da Lei 14.133/2021).',
    current: {
      green: 'Programa implantado e auditado.',
      yellow: 'Código de conduta publicado; falta canal de denúncia.',
      red: 'Programa inexistente.',
    },
  },
  {
    category: 'outros',
    title: 'Cadastro no sistema da disputa',
    required:
      'Credenciamento prévio no provedor do sistema eletrônico e registro cadastral atualizado no SICAF.',
    current: papers,
  },
]

export const NOTES = {
  green: ['Atende sem ressalvas.', 'Documento conferido; nenhuma providência.', 'Comprovação suficiente.'],
  yellow: [
    'Atende com ressalva: providenciar antes da sessão.',
    'Recomenda-se pedido de esclarecimento ao pregoeiro.',
    'Risco moderado; há tempo para regularizar.',
  ],
  red: [
    'Não atende; sem providência, a inabilitação é provável.',
    'Exigência possivelmente restritiva; avaliar impugnação.',
    'Pendência crítica para a habilitação.',
  ],
} as const

type AlertTemplate = {
  readonly type: 'risk' | 'opportunity' | 'info'
  readonly severities: readonly ('critical' | 'high' | 'medium' | 'low')[]
  readonly title: string
  readonly description: string
  readonly action: 'impugnacao' | 'esclarecimento' | 'recurso' | 'contrarrazao' | 'none'
  readonly thesis: string | null
}

export const ALERT_TEMPLATES: readonly AlertTemplate[] = [
  {
    type: 'risk',
    severities: ['critical', 'high'],
    title: 'Atestado com quantitativo acima de 50 %',
    description:
      'O edital exige atestado que comprove mais da metade das quantidades, o que restringe a competição sem justificativa nos autos.',
    action: 'impugnacao',
    thesis:
      'O art. 67, § 2º, da Lei 14.133/2021 limita a exigência de quantidades mínimas a 50 % das parcelas de maior relevância.',
  },
  {
    type: 'risk',
    severities: ['high', 'medium'],
    title: 'Marca indicada sem justificativa técnica',
    description: 'O termo de referência descreve característica que aponta para um único fabricante.',
    action: 'impugnacao',
    thesis:
      'A indicação de marca só é admitida nas hipóteses do art. 41, I, da Lei 14.133/2021, mediante justificativa formal.',
  },
  {
    type: 'risk',
    severities: ['high', 'medium'],
    title: 'Prazo de entrega exíguo',
    description: 'A entrega em cinco dias corridos favorece fornecedores locais e eleva o custo logístico.',
    action: 'esclarecimento',
    thesis: 'Prazos desarrazoados ferem a isonomia e a competitividade (art. 5º da Lei 14.133/2021).',
  },
  {
    type: 'risk',
    severities: ['medium', 'low'],
    title: 'Reajuste sem índice definido',
    description: 'A minuta do contrato não indica o índice nem a data-base do reajuste.',
    action: 'esclarecimento',
    thesis: 'O art. 25, § 7º, da Lei 14.133/2021 torna obrigatória a previsão de índice de reajustamento.',
  },
  {
    type: 'risk',
    severities: ['critical', 'high'],
    title: 'Estimativa possivelmente inexequível',
    description: 'O valor unitário estimado está abaixo do piso da convenção coletiva somado aos encargos.',
    action: 'impugnacao',
    thesis: 'O orçamento deve refletir os preços de mercado (art. 23 da Lei 14.133/2021).',
  },
  {
    type: 'risk',
    severities: ['medium'],
    title: 'Habilitação do concorrente com certidão vencida',
    description: 'A certidão de falência juntada pela primeira colocada foi emitida há mais de 60 dias.',
    action: 'recurso',
    thesis:
      'A vinculação ao edital impede relevar o prazo de validade do documento (art. 64 da Lei 14.133/2021).',
  },
  {
    type: 'risk',
    severities: ['medium', 'low'],
    title: 'Recurso de concorrente contra a classificação',
    description: 'Foi registrada intenção de recurso quanto à planilha de custos apresentada.',
    action: 'contrarrazao',
    thesis: 'Erro sanável de planilha não desclassifica a proposta quando o valor global é mantido.',
  },
  {
    type: 'opportunity',
    severities: ['medium', 'low'],
    title: 'Baixa concorrência na região',
    description: 'Os três últimos certames do órgão para o mesmo objeto tiveram até duas licitantes.',
    action: 'none',
    thesis: null,
  },
  {
    type: 'opportunity',
    severities: ['high', 'medium'],
    title: 'Adesão à ata permitida',
    description:
      'A ata de registro de preços admite adesão de órgãos não participantes até o dobro do quantitativo.',
    action: 'none',
    thesis: null,
  },
  {
    type: 'info',
    severities: ['low'],
    title: 'Orçamento sigiloso',
    description: 'O valor estimado só será divulgado após a fase de lances.',
    action: 'none',
    thesis: null,
  },
  {
    type: 'info',
    severities: ['low', 'medium'],
    title: 'Sessão remarcada',
    description: 'O órgão publicou retificação e alterou a data da sessão pública.',
    action: 'none',
    thesis: null,
  },
]

/** Reasons for a verdict, by recommendation. */
export const REASONS = {
  participar: [
    'Habilitação completa e objeto aderente ao histórico da empresa.',
    'Margem dentro da meta e órgão com bom histórico de pagamento.',
  ],
  cautela: [
    'Há pendências sanáveis de habilitação antes da sessão.',
    'Margem estreita; depende de negociação com o fornecedor.',
  ],
  nao_recomendado: [
    'Exigência técnica que a empresa não comprova.',
    'Risco de pagamento alto e margem abaixo do mínimo.',
  ],
} as const

/** Bullets of a verdict; each fits any notice, whatever its recommendation. */
export const BULLETS: readonly string[] = [
  'Objeto aderente às atividades do CNAE principal.',
  'Atestados existentes cobrem parte das parcelas de maior relevância.',
  'Prazo de impugnação: três dias úteis antes da sessão (art. 164).',
  'Entrega parcelada reduz a necessidade de capital de giro.',
  'Critério de julgamento favorece quem tem escala regional.',
  'Pagamento em até 30 dias do recebimento definitivo.',
  'Exige garantia contratual de 5 %.',
  'Reajuste anual pelo IPCA após doze meses do orçamento.',
]
