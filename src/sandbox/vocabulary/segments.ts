export type Product = readonly [description: string, unit: string, unitPriceBrl: number]

/** One line of business: the products and the wording of its notices. */
export type MarketSegment = {
  readonly name: string
  /** Matches the object of the segment's notices; no two segments match the same template. */
  readonly words: RegExp
  /** Matches the segment's buyers; absent if any buyer may buy. */
  readonly boughtBy?: RegExp
  readonly materialOrService: 'M' | 'S'
  /** Median number of items. */
  readonly items: number
  /** Templates with `{city}` and `{months}`. */
  readonly objects: readonly string[]
  readonly products: readonly Product[]
  readonly specifications: readonly string[]
}

export const SEGMENTS: readonly MarketSegment[] = [
  {
    name: 'merenda escolar',
    words: /gêneros alimentícios|alimentação escolar/iu,
    boughtBy: /MUNICIPIO|PREFEITURA|EDUCACAO/iu,
    materialOrService: 'M',
    items: 26,
    objects: [
      'Registro de preços para aquisição de gêneros alimentícios perecíveis e não perecíveis, destinados à alimentação escolar da rede municipal de ensino de {city}',
      'Aquisição parcelada de gêneros alimentícios para o preparo da merenda das unidades de educação infantil e ensino fundamental, pelo período de {months} meses',
    ],
    products: [
      ['Arroz agulhinha tipo 1, pacote de 5 kg', 'PCT', 27.4],
      ['Feijão carioca tipo 1, pacote de 1 kg', 'PCT', 8.15],
      ['Óleo de soja refinado, garrafa de 900 ml', 'UN', 7.2],
      ['Leite em pó integral instantâneo, pacote de 400 g', 'PCT', 16.9],
      ['Carne bovina moída de segunda, congelada', 'KG', 31.5],
      ['Peito de frango sem osso, congelado', 'KG', 19.8],
      ['Macarrão parafuso com ovos, pacote de 500 g', 'PCT', 4.35],
      ['Banana prata in natura, primeira qualidade', 'KG', 6.1],
      ['Batata inglesa lavada, primeira qualidade', 'KG', 5.6],
      ['Biscoito de polvilho, pacote de 200 g', 'PCT', 6.75],
    ],
    specifications: [
      'validade mínima de 6 meses na entrega',
      'entrega ponto a ponto nas escolas',
      'rotulagem conforme RDC 727/2022',
    ],
  },
  {
    name: 'medicamentos',
    words: /medicamentos/iu,
    boughtBy: /MUNICIPIO|PREFEITURA|SAUDE|HOSPITAL|EXERCITO/iu,
    materialOrService: 'M',
    items: 38,
    objects: [
      'Registro de preços para eventual aquisição de medicamentos da Relação Municipal de Medicamentos Essenciais (REMUME), para atender às unidades de saúde de {city}',
      'Aquisição de medicamentos injetáveis e soluções parenterais para abastecimento da farmácia hospitalar por {months} meses',
    ],
    products: [
      ['Dipirona sódica 500 mg/ml, solução injetável, ampola de 2 ml', 'AMP', 1.02],
      ['Amoxicilina 500 mg, cápsula', 'CAP', 0.2874],
      ['Losartana potássica 50 mg, comprimido', 'COMP', 0.0612],
      ['Cloreto de sódio 0,9 %, solução injetável, bolsa de 500 ml', 'BLS', 4.35],
      ['Ceftriaxona sódica 1 g, pó para solução injetável', 'FA', 5.18],
      ['Metformina 850 mg, comprimido', 'COMP', 0.0894],
      ['Omeprazol 20 mg, cápsula', 'CAP', 0.0743],
      ['Enoxaparina sódica 40 mg, seringa preenchida', 'SER', 17.9],
      ['Insulina humana NPH 100 UI/ml, frasco de 10 ml', 'FR', 24.6],
      ['Paracetamol 200 mg/ml, solução oral, frasco de 15 ml', 'FR', 1.39],
    ],
    specifications: [
      'registro vigente na ANVISA',
      'embalagem com identificação de lote e validade',
      'validade mínima de 12 meses na entrega',
    ],
  },
  {
    name: 'material hospitalar',
    words: /material médico-hospitalar|insumos hospitalares/iu,
    boughtBy: /MUNICIPIO|PREFEITURA|SAUDE|HOSPITAL|EXERCITO/iu,
    materialOrService: 'M',
    items: 30,
    objects: [
      'Registro de preços para aquisição de material médico-hospitalar de consumo, destinado à atenção básica e à urgência de {city}',
      'Aquisição de insumos hospitalares descartáveis, conforme condições, quantidades e exigências estabelecidas no Termo de Referência',
    ],
    products: [
      ['Luva de procedimento em látex, tamanho M, caixa com 100', 'CX', 24.9],
      ['Seringa descartável 5 ml com agulha 25 x 7', 'UN', 0.3185],
      ['Compressa de gaze hidrófila 7,5 x 7,5 cm, pacote com 500', 'PCT', 21.7],
      ['Cateter intravenoso periférico nº 22', 'UN', 0.8912],
      ['Equipo macrogotas com injetor lateral', 'UN', 1.2475],
      ['Sonda uretral nº 12, estéril', 'UN', 0.7321],
      ['Fralda geriátrica descartável, tamanho G', 'UN', 1.4856],
      ['Álcool etílico 70 %, frasco de 1 litro', 'FR', 6.48],
      ['Máscara cirúrgica tripla com elástico, caixa com 50', 'CX', 8.2],
      ['Coletor de material perfurocortante, 13 litros', 'UN', 5.92],
    ],
    specifications: [
      'registro na ANVISA',
      'embalagem individual estéril',
      'amostra para avaliação da comissão técnica',
    ],
  },
  {
    name: 'limpeza e conservação',
    words: /limpeza, asseio|limpeza e conservação/iu,
    materialOrService: 'S',
    items: 4,
    objects: [
      'Contratação de empresa especializada na prestação de serviços continuados de limpeza, asseio e conservação predial, com dedicação exclusiva de mão de obra, nas dependências do órgão em {city}',
      'Prestação de serviços contínuos de limpeza e conservação, com fornecimento de materiais e equipamentos, por {months} meses, prorrogáveis na forma da lei',
    ],
    products: [
      ['Servente de limpeza, 44 horas semanais, diurno', 'POSTO', 4320.5],
      ['Servente de limpeza com insalubridade em grau máximo, 44 horas semanais', 'POSTO', 5410.8],
      ['Encarregado de limpeza, 44 horas semanais', 'POSTO', 5875.2],
      ['Limpador de vidros com risco, área externa', 'M2', 1.8423],
      ['Limpeza de área interna, piso frio', 'M2', 5.7314],
      ['Jardineiro, 44 horas semanais', 'POSTO', 4689.9],
    ],
    specifications: [
      'com fornecimento de uniformes e EPIs',
      'conforme convenção coletiva da categoria',
      'escala de segunda a sábado',
    ],
  },
  {
    name: 'vigilância',
    words: /vigilância patrimonial/iu,
    materialOrService: 'S',
    items: 4,
    objects: [
      'Contratação de serviços continuados de vigilância patrimonial armada e desarmada, com dedicação exclusiva de mão de obra, para as unidades localizadas em {city}',
    ],
    products: [
      ['Posto de vigilância armada, 12x36 horas, diurno', 'POSTO', 12480.7],
      ['Posto de vigilância armada, 12x36 horas, noturno', 'POSTO', 14260.3],
      ['Posto de vigilância desarmada, 44 horas semanais', 'POSTO', 6215.4],
      ['Ronda motorizada, 24 horas', 'MES', 21950.0],
    ],
    specifications: [
      'autorização de funcionamento da Polícia Federal',
      'com supervisão semanal',
      'com rádio comunicador e bastão de ronda',
    ],
  },
  {
    name: 'informática',
    words: /equipamentos de informática|microcomputadores/iu,
    materialOrService: 'M',
    items: 11,
    objects: [
      'Registro de preços para aquisição de equipamentos de informática (computadores, notebooks, monitores e periféricos), com garantia on-site, para atender às necessidades do órgão em {city}',
      'Aquisição de microcomputadores, nobreaks e impressoras para renovação do parque tecnológico',
    ],
    products: [
      ['Computador desktop, 16 GB de RAM, SSD 512 GB, com sistema operacional', 'UN', 4890.0],
      ['Notebook 14", 16 GB de RAM, SSD 512 GB', 'UN', 5320.0],
      ['Monitor LED 23,8", ajuste de altura', 'UN', 942.5],
      ['Nobreak 1.500 VA, bivolt', 'UN', 1188.4],
      ['Impressora multifuncional laser monocromática', 'UN', 2674.9],
      ['Switch gerenciável 24 portas gigabit, 4 SFP+', 'UN', 6431.7],
      ['SSD NVMe 1 TB', 'UN', 438.2],
      ['Teclado USB ABNT2', 'UN', 54.37],
      ['Projetor multimídia 4.000 lumens', 'UN', 3925.0],
    ],
    specifications: [
      'garantia on-site de 36 meses',
      'certificação Inmetro',
      'produto em linha de produção',
      'conformidade RoHS',
    ],
  },
  {
    name: 'mobiliário',
    words: /mobiliário/iu,
    materialOrService: 'M',
    items: 14,
    objects: [
      'Registro de preços para aquisição de mobiliário de escritório e escolar, incluindo entrega e montagem, para as unidades de {city}',
    ],
    products: [
      ['Mesa de trabalho em L, 1.400 x 1.400 x 740 mm', 'UN', 1092.3],
      ['Cadeira giratória operacional com apoio de braços', 'UN', 874.6],
      ['Armário alto em MDP, duas portas com chave', 'UN', 1235.8],
      ['Conjunto aluno CJA-05', 'CJ', 412.9],
      ['Arquivo de aço, quatro gavetas', 'UN', 987.4],
      ['Longarina de três lugares', 'UN', 766.1],
      ['Estante de aço desmontável, seis prateleiras', 'UN', 389.7],
    ],
    specifications: [
      'conforme NBR 13962',
      'laudo ergonômico NR-17',
      'garantia mínima de 5 anos',
      'cor a definir',
    ],
  },
  {
    name: 'pavimentação',
    words: /pavimentação asfáltica|recapeamento/iu,
    boughtBy: /MUNICIPIO|PREFEITURA/iu,
    materialOrService: 'S',
    items: 9,
    objects: [
      'Contratação de empresa de engenharia para execução de pavimentação asfáltica em CBUQ, drenagem superficial e sinalização viária em diversas ruas do município de {city}, em regime de empreitada por preço unitário',
      'Execução de obras de recapeamento e recuperação de pavimento em vias urbanas, com fornecimento de material e mão de obra',
    ],
    products: [
      ['Concreto betuminoso usinado a quente (CBUQ), camada de rolamento', 'T', 612.4],
      ['Imprimação com CM-30', 'M2', 9.7645],
      ['Base de brita graduada', 'M3', 214.9],
      ['Meio-fio de concreto pré-moldado', 'M', 48.31],
      ['Sinalização horizontal com tinta acrílica', 'M2', 31.28],
      ['Administração local da obra', 'MES', 28640.0],
      ['Escavação mecânica em material de 1ª categoria', 'M3', 13.4721],
    ],
    specifications: [
      'conforme composição SINAPI',
      'inclusive transporte DMT 15 km',
      'com controle tecnológico',
    ],
  },
  {
    name: 'ar-condicionado',
    words: /ar-condicionado|ar condicionado/iu,
    materialOrService: 'S',
    items: 8,
    objects: [
      'Contratação de empresa para manutenção preventiva e corretiva de aparelhos de ar-condicionado, com fornecimento de peças, por {months} meses, nas unidades de {city}',
    ],
    products: [
      ['Manutenção preventiva de aparelho split 12.000 BTU/h', 'SV', 142.8],
      ['Manutenção preventiva de aparelho split 24.000 BTU/h', 'SV', 186.5],
      ['Instalação de aparelho split até 30.000 BTU/h, com até 5 m de tubulação', 'SV', 689.0],
      ['Recarga de gás refrigerante R-410A', 'KG', 118.9],
      ['Substituição de compressor 18.000 BTU/h', 'SV', 1264.3],
      ['Elaboração e execução de PMOC', 'MES', 3250.0],
    ],
    specifications: ['com peças originais', 'com ART do responsável técnico', 'atendimento em até 24 horas'],
  },
  {
    name: 'combustíveis',
    words: /combustíveis/iu,
    materialOrService: 'M',
    items: 4,
    objects: [
      'Registro de preços para fornecimento parcelado de combustíveis automotivos (gasolina comum, etanol e óleo diesel S10), para abastecimento da frota oficial de {city}',
    ],
    products: [
      ['Gasolina comum tipo C', 'L', 6.3491],
      ['Óleo diesel S10', 'L', 6.1872],
      ['Etanol hidratado', 'L', 4.2163],
      ['Arla 32, balde de 20 litros', 'BD', 72.4],
    ],
    specifications: ['posto a no máximo 10 km da garagem', 'conforme resolução ANP vigente'],
  },
  {
    name: 'transporte escolar',
    words: /transporte escolar/iu,
    boughtBy: /MUNICIPIO|PREFEITURA|EDUCACAO/iu,
    materialOrService: 'S',
    items: 17,
    objects: [
      'Contratação de serviços de transporte escolar de alunos da rede pública, residentes na zona rural de {city}, por quilômetro rodado, com veículo, motorista e monitor',
    ],
    products: [
      ['Linha rural, estrada não pavimentada, micro-ônibus', 'KM', 8.7342],
      ['Linha rural, estrada pavimentada, ônibus', 'KM', 10.1265],
      ['Linha distrital, van de 15 lugares', 'KM', 6.9418],
      ['Linha urbana com veículo acessível', 'KM', 11.4507],
    ],
    specifications: ['turno matutino', 'turno vespertino', 'turno noturno', 'com monitor'],
  },
  {
    name: 'software de gestão',
    words: /sistema integrado de gestão|solução de software/iu,
    materialOrService: 'S',
    items: 7,
    objects: [
      'Contratação de empresa para licenciamento de sistema integrado de gestão pública em nuvem (SaaS), incluindo implantação, migração de dados, treinamento e suporte técnico, por {months} meses',
      'Prestação de serviços de solução de software para gestão documental e processo eletrônico, com hospedagem em data center',
    ],
    products: [
      ['Licença mensal de uso, módulo contábil e orçamentário', 'MES', 8420.0],
      ['Licença mensal de uso, módulo de recursos humanos e folha', 'MES', 6910.0],
      ['Implantação e parametrização', 'SV', 48600.0],
      ['Migração de dados legados', 'SV', 36250.0],
      ['Treinamento presencial, turma de até 20 servidores', 'TURMA', 3980.0],
      ['Hora técnica de customização', 'H', 198.75],
    ],
    specifications: [
      'acordo de nível de serviço de 99,5 %',
      'com prova de conceito',
      'aderente à LGPD e ao SIAFIC',
    ],
  },
  {
    name: 'uniformes',
    words: /uniformes/iu,
    boughtBy: /MUNICIPIO|PREFEITURA|EDUCACAO/iu,
    materialOrService: 'M',
    items: 12,
    objects: [
      'Registro de preços para confecção e fornecimento de uniformes escolares e profissionais para os servidores e alunos da rede de {city}',
    ],
    products: [
      ['Camiseta manga curta em malha PV, com serigrafia', 'UN', 24.85],
      ['Calça em helanca, azul-marinho', 'UN', 41.2],
      ['Jaqueta com capuz em helanca flanelada', 'UN', 79.9],
      ['Jaleco em gabardine, manga longa', 'UN', 62.45],
      ['Tênis escolar, numeração 25 a 44', 'PAR', 88.7],
      ['Colete tático para agente de trânsito', 'UN', 214.3],
    ],
    specifications: ['tamanhos do 2 ao G3', 'laudo de composição têxtil', 'prova de piloto em 10 dias'],
  },
  {
    name: 'material de expediente',
    words: /material de expediente|papelaria/iu,
    materialOrService: 'M',
    items: 42,
    objects: [
      'Aquisição de material de expediente para reposição do estoque do almoxarifado central de {city}',
      'Registro de preços para eventual aquisição de itens de papelaria e suprimentos de escritório, por {months} meses',
    ],
    products: [
      ['Papel sulfite A4 75 g/m², resma com 500 folhas', 'RESMA', 24.65],
      ['Caneta esferográfica azul, ponta média, caixa com 50', 'CX', 39.9],
      ['Pasta suspensa kraft com ponteira plástica', 'UN', 2.1894],
      ['Grampeador de mesa para 25 folhas', 'UN', 27.3],
      ['Toner compatível, rendimento de 2.600 páginas', 'UN', 118.0],
      ['Envelope kraft 240 x 340 mm', 'UN', 0.3967],
      ['Caixa-arquivo em polipropileno', 'UN', 6.84],
      ['Fita adesiva transparente 45 mm x 50 m', 'RL', 4.12],
      ['Pincel para quadro branco, recarregável', 'UN', 5.2385],
    ],
    specifications: [
      'certificação FSC',
      'selo Inmetro',
      'embalagem original do fabricante',
      'marca a informar na proposta',
    ],
  },
  {
    name: 'equipamentos de laboratório',
    words: /equipamentos laboratoriais|reagentes/iu,
    boughtBy: /UNIVERSIDADE|CIENCIA|SAUDE|HOSPITAL/iu,
    materialOrService: 'M',
    items: 10,
    objects: [
      'Aquisição de equipamentos laboratoriais para os laboratórios de ensino e pesquisa do órgão em {city}',
      'Registro de preços para fornecimento de reagentes com cessão de analisador em regime de comodato, para o laboratório de análises clínicas',
    ],
    products: [
      ['Centrífuga refrigerada de bancada, 24 tubos', 'UN', 28940.0],
      ['Microscópio biológico trinocular com câmera', 'UN', 9870.0],
      ['Autoclave vertical 100 litros', 'UN', 14350.0],
      ['Reagente para dosagem de glicose, teste', 'TESTE', 0.8425],
      ['Reagente para hemograma completo, teste', 'TESTE', 2.9178],
      ['Micropipeta monocanal 100-1000 µl', 'UN', 638.0],
      ['Balança analítica 220 g, resolução 0,1 mg', 'UN', 7215.0],
    ],
    specifications: ['com instalação e treinamento', 'calibração RBC', 'assistência técnica no estado'],
  },
  {
    name: 'eventos',
    words: /eventos|sonorização/iu,
    boughtBy: /MUNICIPIO|PREFEITURA|CAMARA/iu,
    materialOrService: 'S',
    items: 13,
    objects: [
      'Registro de preços para locação de estruturas para eventos (palco, tendas, gradis e banheiros químicos), com montagem e desmontagem, para as festividades de {city}',
      'Contratação de serviços de sonorização, iluminação e locação de trios elétricos para o calendário cultural de {city}',
    ],
    products: [
      ['Palco 12 x 10 m com cobertura em box truss, diária', 'DIARIA', 9840.0],
      ['Tenda piramidal 10 x 10 m, diária', 'DIARIA', 982.5],
      ['Banheiro químico com limpeza, diária', 'DIARIA', 198.3],
      ['Sistema de som de médio porte com operador, diária', 'DIARIA', 6275.0],
      ['Grupo gerador 180 kVA, diária de 12 horas', 'DIARIA', 3120.0],
      ['Gradil de contenção, metro linear', 'M', 14.6],
    ],
    specifications: ['com ART ou RRT de montagem', 'com equipe técnica', 'instalação até 6 horas antes'],
  },
]
