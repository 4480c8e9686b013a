import { grafias } from './basics.ts'
import {
  date,
  days,
  emAndamento,
  fase,
  faseOrdem,
  flag,
  local,
  type Mart,
  money,
  of,
  ofNotice,
  same,
  text,
} from './columns.ts'

/** Live notices, one row each: what other marts of notices build on. */

export const editaisAtivos: Mart = {
  name: 'editais_ativos',
  description:
    'Live notices, one row each: all that the API still shows, with local times and plausible values',
  portuguese: [
    'Editais ativos',
    'Editais que a API ainda mostra, um por linha, com horas locais e valores confiáveis; inclui descartados e vencidos',
  ],
  columns: [
    ...ofNotice,
    ...same('editais', 'pncp_id', 'orgao_cnpj'),
    ...of(grafias, 'orgao'),
    ...same('editais', 'objeto', 'numero'),
    ...of(grafias, 'modalidade', 'uf'),
    ...same('editais', 'status'),
    fase,
    faseOrdem,
    emAndamento,
    ...same('editais', 'participation_confirmed'),
    ...of(grafias, 'discard_reason'),
    ...same('editais', 'valor_estimado'),
    money('valor_estimado_informado', 'Estimated value; NULL if it is 0, symbolic or a sentinel', [
      'Valor estimado informado',
      'Valor estimado em BRL para somas; vazio quando é 0 (pode ser sigiloso), simbólico ou suspeito',
    ]),
    flag(
      'valor_suspeito',
      'Whether the value is negative, below 1, only nines (eight or more), or 100 billion or more',
      [
        'Valor suspeito',
        'Se o valor estimado é negativo, entre 0 e 1 real, só de noves ou de 100 bilhões ou mais',
      ],
    ),
    ...same('editais', 'data_sessao'),
    local('data_sessao_local', 'Public session', [
      'Data e hora da sessão',
      'Sessão pública, na hora local; 00:00 quando a fonte só dá o dia',
    ]),
    date('data_sessao_dia', 'Local day of the public session', [
      'Dia da sessão',
      'Dia da sessão pública, no fuso local',
    ]),
    days('dias_ate_sessao', 'From today to the session; negative if it is past', [
      'Dias até a sessão',
      'Dias corridos de hoje até a sessão; 0: hoje; negativo: já passou',
    ]),
    local('criado_local', 'When the company began to follow the notice', [
      'Criado em',
      'Quando a empresa começou a acompanhar o edital, na hora local',
    ]),
    local('atualizado_local', "The API's last update of the notice", [
      'Atualizado em',
      'Última atualização do edital segundo a API, na hora local',
    ]),
    local('confirmado_local', 'When participation was confirmed', [
      'Confirmado em',
      'Quando a participação foi confirmada, na hora local',
    ]),
    ...same(
      'editais',
      'pncp_url',
      'analysis_state',
      'created_at',
      'updated_at',
      'first_seen_at',
      'changed_at',
    ),
    text(
      'situacao_sessao',
      'futura: it has not begun, or is today without a time of day; passada; sem data: no plausible date',
      [
        'Situação da sessão',
        'futura (ainda não começou, ou é hoje sem hora marcada), passada ou sem data; no horário de SOURCE_TIMEZONE',
      ],
    ),
  ],
}
