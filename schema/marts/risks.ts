import { flag, type Mart, renamed, same, text } from './columns.ts'

/** Which payment risk counts, if the buyer's report and the pricing both name one. */

export const riscosPagamento: Mart = {
  name: 'riscos_pagamento',
  description:
    "Payment risk of analysed notices: the buyer's report and the pricing, and which of them counts",
  portuguese: [
    'Riscos de pagamento',
    'Risco de pagamento dos editais analisados: o do relatório do órgão e o da precificação, e qual dos dois vale',
  ],
  columns: [
    ...same('analyses', 'company', 'edital_id'),
    text(
      'risco_pagamento',
      "Payment risk that counts: a known one before an unknown one, the buyer's report before the pricing",
      [
        'Risco de pagamento',
        'Risco que vale: conhecido antes de desconhecido, o relatório do órgão antes da precificação; vazio: não avaliado',
      ],
    ),
    text('risco_pagamento_fonte', 'Where it comes from: relatório do órgão or precificação', [
      'Fonte do risco de pagamento',
      'De onde vem o risco que vale: relatório do órgão ou precificação',
    ]),
    flag('risco_conhecido', 'Whether it is known, that is other than desconhecido', [
      'Risco conhecido',
      'Se o risco que vale é outro que desconhecido',
    ]),
    renamed('risco_pagamento_orgao', 'analyses.orgao_report_payment_risk', [
      'Risco segundo o relatório do órgão',
      'Risco de o órgão atrasar pagamentos, segundo dados públicos de transparência; vazio: não avaliado',
    ]),
    renamed('risco_pagamento_precificacao', 'analyses.pricing_risco_pagamento', [
      'Risco segundo a precificação',
      'Risco de pagamento segundo a precificação; vazio: não avaliado',
    ]),
    text(
      'risco_pagamento_rotulo',
      'risco_pagamento as readers write it: baixo, médio, alto, crítico, desconhecido',
      [
        'Risco de pagamento (rótulo)',
        'Risco que vale, por extenso: baixo, médio, alto, crítico ou desconhecido',
      ],
    ),
    text('risco_pagamento_orgao_rotulo', 'risco_pagamento_orgao as readers write it', [
      'Risco segundo o órgão (rótulo)',
      'Risco segundo o relatório do órgão, por extenso',
    ]),
    text('risco_pagamento_precificacao_rotulo', 'risco_pagamento_precificacao as readers write it', [
      'Risco segundo a precificação (rótulo)',
      'Risco segundo a precificação, por extenso',
    ]),
  ],
}
