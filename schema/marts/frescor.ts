import { snapshotInfo } from './basics.ts'
import { count, derived, local, type Mart, moment, of, text } from './columns.ts'

/** How fresh the data are. */

export const frescor: Mart = {
  name: 'frescor',
  description: 'How fresh and how complete the data are, one row per company',
  portuguese: ['Atualidade dos dados', 'Quão recentes e completos estão os dados, uma linha por empresa'],
  columns: [
    ...of(snapshotInfo, 'company', 'snapshot'),
    moment('publicado_em', 'When the snapshot was written', [
      'Publicado em (UTC)',
      'Quando o snapshot foi gravado',
    ]),
    local('publicado_local', 'When the snapshot was written', [
      'Publicado em',
      'Quando o snapshot foi gravado, na hora local',
    ]),
    derived(
      'BIGINT',
      'idade_minutos',
      'Time since the snapshot was written',
      ['Idade dos dados', 'Minutos desde que o snapshot foi gravado'],
      'minutes',
    ),
    moment('ultima_execucao_em', 'End of the last run in this snapshot', [
      'Última execução (UTC)',
      'Fim da última execução deste snapshot; o início, quando ela não terminou',
    ]),
    text('ultima_execucao_status', 'Its status: ok, partial, failed or interrupted', [
      'Resultado da última execução',
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
      'Editais que a API ainda mostra, inclusive descartados e vencidos',
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
      'Resultado da última execução (rótulo)',
      'sem problemas, parcial, falhou ou interrompida',
    ]),
  ],
}
