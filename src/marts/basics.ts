import { snapshotInfo } from '#schema/tables.ts'
import {
  count,
  date,
  derived,
  emAndamento,
  fase,
  faseOrdem,
  flag,
  local,
  type Mart,
  moment,
  of,
  ofCompany,
  ofNotice,
  same,
  text,
} from './columns.ts'
import { labelsSql, phasesSql } from './labels.ts'

/** The base of other marts: the snapshot, phases and days. */

export const fases: Mart = {
  name: 'fases',
  sql: phasesSql(),
  description: 'The phases of the contract in their order',
  portuguese: ['Fases', 'As fases do contrato, na ordem do funil'],
  columns: [...same('editais', 'status'), fase, faseOrdem, emAndamento],
}

/** Stored, because reading all texts in each mart that shows one would take up to ten times as long. */
export const grafias: Mart = {
  name: 'grafias',
  storedFrom: { editais: ['edital_id', 'deleted_at', 'orgao', 'modalidade', 'uf', 'discard_reason'] },
  description:
    'Notices with a text that marts show in another spelling: the most frequent of those that differ only in case, accents, spaces, invisible characters or, for modalities, punctuation',
  portuguese: [
    'Grafias',
    'Editais com um texto que se mostra em outra grafia: a mais frequente das que só diferem em maiúsculas, acentos, espaços, caracteres invisíveis ou, na modalidade, pontuação',
  ],
  columns: [
    ...ofNotice,
    text('orgao', 'Contracting body, in its most frequent spelling', [
      'Órgão',
      'Órgão comprador, na grafia mais frequente',
    ]),
    text('modalidade', 'Modality, in its most frequent spelling', [
      'Modalidade',
      'Modalidade da contratação, na grafia mais frequente',
    ]),
    text('uf', 'State (UF) of the buyer, in capitals, in its most frequent spelling', [
      'UF',
      'Estado (UF) do órgão comprador, em maiúsculas, na grafia mais frequente',
    ]),
    text('discard_reason', 'Why the notice was discarded, in its most frequent spelling', [
      'Motivo do descarte',
      'Por que o edital foi descartado, na grafia mais frequente',
    ]),
  ],
}

/** Stored for the same reason. What is in progress counts before what was discarded, perhaps because it is a copy. */
export const republicacoes: Mart = {
  name: 'republicacoes',
  storedFrom: {
    editais: [
      'edital_id',
      'deleted_at',
      'orgao_cnpj',
      'orgao',
      'objeto',
      'valor_estimado',
      'status',
      'created_at',
      'numero',
    ],
  },
  description:
    'Live notices that sums leave out, because another notice is of the same purchase: the same buyer (CNPJ, else name), object (without regard to case, accents, spaces and the name of a portal in front) and value, known and equal to the cent, each followed at most 180 days after the one before. The latest in progress counts; without one, the latest',
  portuguese: [
    'Republicações',
    'Editais ativos que as somas não contam, porque outro edital é da mesma compra: mesmo órgão (CNPJ ou, na falta, nome), mesmo objeto (sem olhar maiúsculas, acentos, espaços nem o nome do portal no começo) e mesmo valor, conhecido e igual até os centavos, cada um acompanhado no máximo 180 dias depois do anterior. Conta o mais recente em andamento; sem nenhum, o mais recente',
  ],
  columns: [
    ...ofNotice,
    text('contado_no_edital', 'edital_id of the notice of the same purchase that counts instead', [
      'Contado no edital (ID)',
      'Identificador do edital da mesma compra que conta nas somas no lugar deste',
    ]),
    text(
      'contado_no_numero',
      'Number of the notice in which the purchase counts instead; sem número without one',
      [
        'Republicado: conta no edital nº',
        'Número do edital da mesma compra que conta nas somas no lugar deste; sem número quando não informado',
      ],
    ),
  ],
}

export const rotulos: Mart = {
  name: 'rotulos',
  sql: labelsSql(),
  description:
    'The codes of the API and of the worker with their labels in Portuguese; those of phases are in fases',
  portuguese: [
    'Rótulos',
    'Os códigos das colunas e como se escrevem em português; os das fases estão em fases',
  ],
  columns: [
    text('coluna', 'Column that has the code, as table.column', [
      'Coluna',
      'Coluna que traz o código: tabela.coluna',
    ]),
    text('codigo', 'Code', ['Código', 'Código como vem na coluna']),
    text('rotulo', 'Label in Portuguese', ['Rótulo', 'Como o código se escreve em português']),
    derived('INTEGER', 'ordem', 'Order of the codes of a column, from 1', [
      'Ordem do código',
      'Ordem dos códigos da coluna, a partir de 1',
    ]),
  ],
}

/** The rules hold for other years, too, but nobody has checked holidays beyond these. `editais doctor` warns before they end. */
export const CALENDAR_YEARS = { first: 2020, last: 2035 } as const

export const feriados: Mart = {
  name: 'feriados',
  description:
    'Holidays of Brazil and of its states, and optional days off, from 2010 to 2060, with their sources; checked for 2020 to 2035; without holidays of cities',
  portuguese: [
    'Feriados',
    'Feriados nacionais e estaduais e pontos facultativos de 2010 a 2060, com a fonte; conferidos de 2020 a 2035; sem feriados municipais',
  ],
  columns: [
    date('dia', 'Day', ['Dia', 'Dia do feriado']),
    text('uf', 'State; NULL for the whole country', ['UF', 'Estado do feriado; vazio: todo o país']),
    text('feriado', 'Name', ['Feriado', 'Nome do feriado']),
    text('tipo', 'nacional, estadual, or facultativo: offices may be closed', [
      'Tipo',
      'nacional, estadual ou facultativo: ponto facultativo, em que a repartição pode não abrir',
    ]),
    text('fonte', 'Law or act that makes it a holiday', ['Fonte', 'Lei ou ato que o institui']),
  ],
}

export const calendario: Mart = {
  name: 'calendario',
  description:
    'Days from 2010 to 2060 with the national holidays of Brazil and the last day to contest by Lei 14.133/2021',
  portuguese: [
    'Calendário',
    'Dias de 2010 a 2060, com os feriados nacionais e o último dia para impugnar; os estaduais estão em feriados',
  ],
  columns: [
    date('dia', 'Day', ['Dia', 'Dia do calendário']),
    text('feriado', 'National holiday on that day, or Good Friday; optional days off do not count', [
      'Feriado',
      'Feriado nacional ou Paixão de Cristo; vazio nos demais dias e em pontos facultativos',
    ]),
    flag('dia_util', 'Whether it is neither on a weekend nor a national holiday', [
      'Dia útil',
      'Se não é fim de semana nem feriado nacional',
    ]),
    date(
      'limite_impugnacao',
      'Last day to contest a session on that day by Lei 14.133/2021: the third business day before it on which offices are surely open',
      [
        'Limite para impugnar',
        'Último dia para impugnar pela Lei 14.133/2021 quando a sessão é neste dia: o terceiro dia útil antes, sem pontos facultativos',
      ],
    ),
    count('dias_uteis_antes', 'Business days from 2010-01-01 to the day before', [
      'Dias úteis antes',
      'Dias úteis de 1/1/2010 até a véspera; a diferença de dois dias é o número de dias úteis entre eles',
    ]),
    text('facultativo', 'Optional day off of the whole country, on which offices may be closed', [
      'Ponto facultativo',
      'Ponto facultativo em todo o país, em que a repartição pode não abrir; conta como dia útil',
    ]),
  ],
}

/** How fresh the data are. */

export const leituras: Mart = {
  name: 'leituras',
  description: 'Runs over all notices, one row each, and which of them were good',
  portuguese: ['Leituras', 'Execuções sobre todos os editais, uma por linha, e quais foram boas'],
  columns: [
    ...same('sync_runs', 'company', 'run_id'),
    moment('terminou_em', 'End of the run; its start if it has no end', [
      'Terminou em (UTC)',
      'Fim da execução; o início, quando ela não terminou',
    ]),
    local('terminou_local', 'The same', ['Terminou em', 'Fim da execução, na hora local']),
    flag('boa', 'Whether it was ok or partial and left no notice out', [
      'Boa',
      'Se terminou sem problemas ou parcial e não deixou nenhum edital sem tentar',
    ]),
  ],
}

export const servico: Mart = {
  name: 'servico',
  description:
    'How regularly all notices were read, one row per local day from the first run to today: the runs over all notices, and how old the data became. Looks that find nothing new are no runs: RUN_AT_LEAST_EVERY, 1 hour by default, is a normal interval',
  portuguese: [
    'Regularidade das leituras',
    'Com que regularidade todos os editais foram lidos, uma linha por dia, da primeira execução até hoje; enquanto nada muda, é normal um intervalo de até uma hora (RUN_AT_LEAST_EVERY)',
  ],
  columns: [
    ...ofCompany,
    date('dia', 'Day', ['Dia', 'Dia no fuso local']),
    count('execucoes', 'Runs over all notices that ended on that day, or began on it without an end', [
      'Execuções',
      'Quantidade de execuções sobre todos os editais que terminaram no dia, ou começaram nele e não terminaram',
    ]),
    count('execucoes_boas', 'Good ones, as in leituras', [
      'Execuções boas',
      'Quantidade das que foram boas: sem problemas ou parciais, sem deixar nenhum edital sem tentar',
    ]),
    derived('DOUBLE', 'parcela_boa', 'Share of the runs that were good, 0 to 1; NULL without a run', [
      'Parcela boa',
      'Parcela das execuções que foi boa, de 0 a 1; vazio quando não houve nenhuma',
    ]),
    derived(
      'DOUBLE',
      'maior_intervalo_horas',
      'The longest time since the last good run that the day saw: until the next one, the end of the day, or now; NULL before the first one',
      [
        'Maior intervalo',
        'Maior tempo desde a última execução boa que o dia viu, em horas: até a seguinte, o fim do dia ou agora; vazio antes da primeira',
      ],
      'hours',
    ),
  ],
}

export const frescor: Mart = {
  name: 'frescor',
  description: 'How fresh and how complete the data are, one row per company',
  portuguese: ['Atualidade dos dados', 'Quão recentes e completos estão os dados, uma linha por empresa'],
  columns: [
    ...of(snapshotInfo, 'company', 'snapshot'),
    moment('publicado_em', 'When the snapshot was written', [
      'Publicado em (UTC)',
      'Quando o retrato dos dados foi gravado',
    ]),
    local('publicado_local', 'When the snapshot was written', [
      'Publicado em',
      'Quando o retrato dos dados foi gravado, na hora local',
    ]),
    derived(
      'BIGINT',
      'idade_minutos',
      'Time since the snapshot was written',
      ['Idade dos dados', 'Minutos desde que o retrato dos dados foi gravado'],
      'minutes',
    ),
    moment('ultima_execucao_em', 'End of the last run in this snapshot', [
      'Última execução (UTC)',
      'Fim da última execução deste retrato; o início, quando ela não terminou',
    ]),
    text('ultima_execucao_status', 'Its status: ok, partial, failed or interrupted', [
      'Resultado da última execução (código)',
      'ok, partial (parcial), failed (falhou) ou interrupted (interrompida)',
    ]),
    text('ultima_execucao_erro', 'What went wrong in it', [
      'Erro da última execução',
      'O que deu errado na última execução; vazio quando nada',
    ]),
    moment(
      'ultima_boa_em',
      'End of the last run over all notices that was ok or partial and left nothing out',
      [
        'Última execução boa (UTC)',
        'Fim da última execução sobre todos os editais, ok ou parcial, que não deixou nenhum sem tentar',
      ],
    ),
    local('ultima_boa_local', 'The same', [
      'Última execução boa',
      'Fim da última execução boa (ver ultima_boa_em), na hora local',
    ]),
    count('editais_ativos', 'Live notices', [
      'Editais ativos',
      'Editais que ainda estão na lista, inclusive descartados e vencidos',
    ]),
    count('analises_atuais', 'Live notices whose analysis is current', [
      'Análises atuais',
      'Editais ativos com a análise da última atualização',
    ]),
    count('pendentes', 'Live notices whose analysis is still to be fetched', [
      'Análises pendentes',
      'Editais ativos com a análise ainda por buscar',
    ]),
    count('em_quarentena', 'Records that could not be used and are set aside', [
      'Em quarentena',
      'Registros em aberto que não puderam ser usados',
    ]),
    count('excluidos', 'Live notices in phases whose analyses are not fetched', [
      'Sem busca de análise',
      'Editais ativos em fases cujas análises não são buscadas',
    ]),
    count('desvios', 'Kinds of differences from the contract that were seen', [
      'Desvios do contrato',
      'Tipos de desvio do contrato já vistos',
    ]),
    count('desvios_7_dias', 'Kinds of differences that were seen in the last 7 days', [
      'Desvios em 7 dias',
      'Tipos de desvio vistos nos últimos 7 dias',
    ]),
    text('ultima_execucao_resultado', 'ultima_execucao_status in Portuguese', [
      'Resultado da última execução',
      'sem problemas, parcial, falhou ou interrompida',
    ]),
  ],
}
