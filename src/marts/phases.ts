import {
  count,
  date,
  duration,
  emAndamento,
  fase,
  faseOrdem,
  flag,
  inCommon,
  type Mart,
  moment,
  ofCompany,
  ofNotice,
  same,
  text,
} from './columns.ts'
import { bySession } from './sums.ts'

/** How notices move through phases, and how they change. */

const censurada = flag(
  'censurada',
  'Whether its start is unknown: the company followed the notice before the first reading of the whole list',
  [
    'Início desconhecido',
    'Se a passagem já estava em curso na primeira leitura completa: os dias são um mínimo e não entram nas medianas',
  ],
)

export const passagensPorFase: Mart = {
  name: 'passagens_por_fase',
  description: 'Stays of notices in phases, as observed: the API does not show when a notice moved',
  portuguese: [
    'Passagens por fase',
    'Cada permanência de um edital em uma fase, como nós a vimos: a lista não informa quando o edital mudou de fase',
  ],
  columns: [
    ...ofNotice,
    ...same('edital_versions', 'status'),
    fase,
    faseOrdem,
    moment('entrou_em', 'When it was first observed in the phase', [
      'Entrou em (UTC)',
      'Quando nós vimos o edital na fase pela primeira vez',
    ]),
    moment(
      'saiu_em',
      'When it was first observed in another phase, or verified to be gone; NULL while it is in this phase',
      [
        'Saiu em (UTC)',
        'Quando nós o vimos em outra fase ou verificamos que saiu da lista; vazio: ainda está na fase. Quando volta, é outra passagem',
      ],
    ),
    flag('em_curso', 'Whether it is still in this phase', ['Em curso', 'Se o edital ainda está na fase']),
    duration('dias', 'How long it was observed in this phase, until now if it still is', [
      'Dias na fase',
      'Dias observados na fase, com fração; até agora quando ainda em curso; um mínimo quando censurada',
    ]),
    censurada,
  ],
}

export const funil: Mart = {
  name: 'funil',
  description: 'Live notices by phase: number, value and age; includes phases without notices',
  portuguese: [
    'Funil',
    'Editais ativos por fase: quantos, quanto valem e há quanto tempo estão lá; mostra também fases vazias',
  ],
  columns: [
    ...ofCompany,
    ...same('editais', 'status'),
    fase,
    faseOrdem,
    emAndamento,
    inCommon.editais,
    inCommon.semValor,
    inCommon.valorTotal,
    inCommon.valorMediano,
    duration('idade_mediana_dias', 'Median time since the company began to follow them', [
      'Idade mediana',
      'Mediana de dias desde que a empresa começou a acompanhar os editais',
    ]),
    duration(
      'dias_na_fase_mediana',
      'Median time since they were observed to enter the phase, of those whose start is known',
      [
        'Dias na fase (mediana)',
        'Mediana de dias desde que nós vimos os editais entrar na fase, sem os que já estavam nela na primeira leitura',
      ],
    ),
    ...bySession({ english: 'Live notices in the phase', portuguese: 'editais ativos da fase' }),
    count(
      'editais_censurados',
      'Live notices in the phase since before the first reading of the whole list',
      [
        'Editais já na fase na primeira leitura',
        'Quantidade de editais ativos cuja entrada na fase ninguém viu: não entram na mediana de dias na fase',
      ],
    ),
  ],
}

export const transicoesDeFase: Mart = {
  name: 'transicoes_de_fase',
  description: 'Every observed move of a notice from one phase to another',
  portuguese: ['Transições de fase', 'Cada mudança de fase que nós vimos'],
  columns: [
    ...ofNotice,
    ...same('editais', 'orgao', 'objeto'),
    text('de_status', 'Phase that it left', ['Fase anterior (código)', 'Código da fase que o edital deixou']),
    text('para_status', 'Phase that it entered', [
      'Nova fase (código)',
      'Código da fase em que o edital entrou',
    ]),
    text('de_fase', 'Phase that it left, in Portuguese', ['Fase anterior', 'Fase que o edital deixou']),
    text('para_fase', 'Phase that it entered, in Portuguese', ['Nova fase', 'Fase em que o edital entrou']),
    moment('observado_em', 'When the new phase was first observed', [
      'Observado em (UTC)',
      'Quando nós vimos a mudança pela primeira vez, não quando ela ocorreu',
    ]),
    inCommon.observadoDia,
    duration('dias_na_fase', 'How long it was observed in the phase that it left', [
      'Dias na fase anterior',
      'Dias observados na fase que o edital deixou; um mínimo quando o início é desconhecido',
    ]),
    censurada,
  ],
}

export const tempoPorFase: Mart = {
  name: 'tempo_por_fase',
  description: 'How long notices stay in each phase, as observed',
  portuguese: ['Tempo por fase', 'Quanto tempo os editais ficam em cada fase, como nós vimos'],
  columns: [
    ...ofCompany,
    ...same('edital_versions', 'status'),
    fase,
    faseOrdem,
    count('passagens', 'Stays', [
      'Passagens',
      'Quantidade de passagens pela fase; um edital que volta conta de novo',
    ]),
    count('concluidas', 'Finished stays', ['Passagens concluídas', 'Passagens que já acabaram']),
    count('em_curso', 'Ongoing stays', [
      'Passagens em curso',
      'Quantidade de passagens que ainda não acabaram',
    ]),
    duration('dias_mediana', 'Median of the finished stays whose start is known', [
      'Mediana de dias',
      'Mediana de dias das passagens concluídas com início conhecido',
    ]),
    duration('dias_media', 'Mean of the finished stays whose start is known', [
      'Média de dias',
      'Média de dias das passagens concluídas com início conhecido',
    ]),
    duration('dias_p90', '90th percentile of the finished stays whose start is known', [
      '90% saem em até (dias)',
      'Nove em cada dez passagens concluídas com início conhecido não duraram mais que isso, em dias',
    ]),
    duration('em_curso_dias_mediana', 'Median of the ongoing stays whose start is known, until now', [
      'Mediana de dias em curso',
      'Mediana de dias, até agora, das passagens em curso com início conhecido',
    ]),
    count(
      'concluidas_censuradas',
      'Finished stays whose start is unknown; they count, but are not measured',
      [
        'Concluídas com início desconhecido',
        'Passagens concluídas que já estavam em curso na primeira leitura: contam, mas não entram nas medianas',
      ],
    ),
    count('em_curso_censuradas', 'Ongoing stays whose start is unknown; they count, but are not measured', [
      'Em curso com início desconhecido',
      'Passagens em curso desde antes da primeira leitura: contam, mas não entram nas medianas',
    ]),
  ],
}

export const mudancas: Mart = {
  name: 'mudancas',
  description: 'Every observed change of a list field, field by field',
  portuguese: ['Mudanças', 'Cada mudança que nós vimos nos dados dos editais, campo a campo'],
  columns: [
    ...ofNotice,
    ...same('editais', 'orgao', 'objeto'),
    text('campo', 'Field that changed', ['Campo (código)', 'Nome da coluna que mudou, como em editais']),
    text('de', 'Value before, as text; times are local', [
      'Valor anterior (código)',
      'Valor antes da mudança, como texto; datas na hora local',
    ]),
    text('para', 'Value after, as text; times are local', [
      'Novo valor (código)',
      'Valor depois da mudança, como texto; datas na hora local',
    ]),
    inCommon.observadoEm,
    inCommon.observadoDia,
    text('campo_rotulo', 'campo in Portuguese', ['Campo', 'Nome do campo que mudou, em português']),
    text(
      'de_rotulo',
      'de as people read it: the name of the phase, sim or não, day and time, or R$; NULL for a value that says nothing',
      [
        'Valor anterior',
        'Valor antes da mudança, como se lê: com o nome da fase, sim ou não, dia e hora, ou R$',
      ],
    ),
    text(
      'para_rotulo',
      'para as people read it: the name of the phase, sim or não, day and time, or R$; NULL for a value that says nothing',
      [
        'Novo valor',
        'Valor depois da mudança, como se lê: com o nome da fase, sim ou não, dia e hora, ou R$',
      ],
    ),
  ],
}

export const tempoAteAnalise: Mart = {
  name: 'tempo_ate_analise',
  description:
    'How long live notices wait for a medium or deep analysis, as observed, by the week in which they arrived',
  portuguese: [
    'Tempo até a análise',
    'Quanto tempo os editais ativos esperam por uma análise média ou profunda, como nós vimos, pela semana em que chegaram',
  ],
  columns: [
    ...ofCompany,
    date('semana', 'Monday of the week in which the company began to follow the notices', [
      'Semana',
      'Segunda-feira da semana em que a empresa começou a acompanhar os editais',
    ]),
    count('editais', 'Live notices whose analyses are read', [
      'Editais',
      'Quantidade de editais ativos cujas análises são lidas',
    ]),
    count('analisados', 'Those that have been seen with such an analysis', [
      'Analisados',
      'Quantidade deles que nós já vimos com essa análise',
    ]),
    count('sem_analise', 'Those that have not', ['Sem análise', 'Quantidade deles ainda sem essa análise']),
    count(
      'medidos',
      'Analysed ones that arrived after the first reading of the list: only their time is known',
      [
        'Medidos',
        'Quantidade de analisados que chegaram depois da primeira leitura da lista: só deles se sabe o tempo',
      ],
    ),
    duration('dias_mediana', 'Median of their days until the analysis was first seen', [
      'Mediana em dias',
      'Mediana dos dias entre a chegada e a primeira vez que vimos a análise',
    ]),
    duration('dias_maximo', 'Longest of these times', ['Maior tempo em dias', 'O maior desses tempos']),
  ],
}
