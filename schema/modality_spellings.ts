/**
 * Spellings of modalities that mean another one's, without case, accents and punctuation: `pregão - eletrônico` is
 * `pregao eletronico` without an entry here. What is no spelling stays apart: a dispensa that is electronic, a pregão that does
 * not say how it is held.
 */
const SPELLINGS: Readonly<Record<string, readonly string[]>> = {
  'pregao eletronico': ['pregao eletronica', 'pregao na forma eletronica', 'pregao forma eletronica'],
  'pregao presencial': ['pregao na forma presencial', 'pregao forma presencial'],
  'concorrencia eletronica': [
    'concorrencia eletronico',
    'concorrencia na forma eletronica',
    'concorrencia forma eletronica',
    'concorrencia publica eletronica',
  ],
  'concorrencia presencial': [
    'concorrencia na forma presencial',
    'concorrencia forma presencial',
    'concorrencia publica presencial',
  ],
  concorrencia: ['concorrencia publica'],
  dispensa: ['dispensa de licitacao', 'dispensa licitacao'],
  'dispensa eletronica': [
    'dispensa de licitacao eletronica',
    'dispensa eletronica de licitacao',
    'dispensa na forma eletronica',
  ],
  inexigibilidade: ['inexigibilidade de licitacao', 'inexigibilidade licitacao'],
  'leilao eletronico': ['leilao na forma eletronica', 'leilao forma eletronica'],
  'leilao presencial': ['leilao na forma presencial', 'leilao forma presencial'],
  'manifestacao de interesse': ['procedimento de manifestacao de interesse', 'pmi'],
  'pre qualificacao': ['prequalificacao'],
  'inaplicabilidade da licitacao': ['inaplicabilidade de licitacao', 'inaplicabilidade'],
  'regime diferenciado de contratacao': ['regime diferenciado de contratacoes', 'rdc'],
}

/** The usual key of each spelling that has another. */
export const MODALITY_SPELLINGS: ReadonlyMap<string, string> = new Map(
  Object.entries(SPELLINGS).flatMap(([usual, others]) => others.map(other => [other, usual] as const)),
)
