import { listPublishedColumns, snapshotInfo, TABLES } from '#schema/tables.ts'
import type { Relation } from '#src/core/lake/catalog.ts'
import {
  calendario,
  fases,
  feriados,
  frescor,
  grafias,
  leituras,
  republicacoes,
  rotulos,
  servico,
} from './basics.ts'
import type { Mart } from './columns.ts'
import {
  analiseRasaProxima,
  cargaDeTrabalho,
  decisoes,
  descartesRecomendados,
  mudancasAnalise,
  mudancasParecer,
  novidades,
  prazosPerdidos,
  requisitosBloqueantes,
  retificacoes,
  sessoesAntecipadas,
  sessoesPerdidas,
  sessoesSimultaneas,
} from './decisions.ts'
import {
  agendaSessoes,
  editaisAtivos,
  editalResumo,
  prazosCalculados,
  prazosImpugnacao,
  riscosPagamento,
} from './notices.ts'
import { alertasJuridicos, itensSelecionados, pendenciasHabilitacao } from './parts.ts'
import {
  funil,
  mudancas,
  passagensPorFase,
  tempoAteAnalise,
  tempoPorFase,
  transicoesDeFase,
} from './phases.ts'
import {
  antecedenciaPorOrgao,
  capitalPorSemana,
  documentosFrequentes,
  exposicaoPagamento,
  faixasDePreco,
  motivosDescarte,
  orgaos,
  participacaoMeEpp,
  precosPorOrgao,
  valorPorModalidade,
  valorPorUf,
} from './sums.ts'

/**
 * The marts: views for BI in every catalog. `src/marts/<name>.sql` defines a view; the files beside it describe its
 * columns, in their order, for the comments and the data dictionary.
 * A mart may use the tables, `snapshot_info` and the marts before it.
 */

export type { Mart, MartColumn } from './columns.ts'
export { grafias }

/** In the order in which they are created. */
export const MARTS: readonly Mart[] = [
  fases,
  rotulos,
  feriados,
  calendario,
  grafias,
  republicacoes,
  editaisAtivos,
  riscosPagamento,
  prazosCalculados,
  prazosImpugnacao,
  editalResumo,
  passagensPorFase,
  funil,
  transicoesDeFase,
  tempoPorFase,
  tempoAteAnalise,
  agendaSessoes,
  pendenciasHabilitacao,
  alertasJuridicos,
  itensSelecionados,
  valorPorUf,
  valorPorModalidade,
  orgaos,
  motivosDescarte,
  mudancas,
  descartesRecomendados,
  sessoesPerdidas,
  mudancasParecer,
  mudancasAnalise,
  decisoes,
  novidades,
  retificacoes,
  sessoesAntecipadas,
  prazosPerdidos,
  analiseRasaProxima,
  sessoesSimultaneas,
  requisitosBloqueantes,
  cargaDeTrabalho,
  capitalPorSemana,
  exposicaoPagamento,
  participacaoMeEpp,
  documentosFrequentes,
  antecedenciaPorOrgao,
  faixasDePreco,
  precosPorOrgao,
  leituras,
  servico,
  frescor,
]

/** All views of a catalog except those of tables. */
export const VIEWS: readonly Mart[] = [snapshotInfo, ...MARTS]

/** Everything that a catalog shows. */
export const CATALOG: readonly Relation[] = [
  ...TABLES.map(table => ({ ...table, columns: listPublishedColumns(table) })),
  ...VIEWS,
]
