import { date, days, type Mart, of, renamed, same, text } from '../mart_columns.ts'
import { editaisAtivos } from './live_notices.ts'

/** Until when a notice may be contested. */

export const prazosImpugnacao: Mart = {
  name: 'prazos_impugnacao',
  orderBy: 'edital_id',
  description:
    'Last day to contest each live notice that has a session or states a day, and the rule that gave that day',
  portuguese: [
    'Prazos de impugnação',
    'Último dia para impugnar cada edital ativo, e a regra que deu esse dia: o edital ou, na falta, a lei',
  ],
  columns: [
    ...same('editais', 'company', 'edital_id'),
    ...of(editaisAtivos, 'data_sessao_dia'),
    renamed('prazo_impugnacao', 'analyses.overview_prazo_impugnacao', [
      'Prazo de impugnação (texto)',
      'Prazo para impugnar, como está escrito no edital',
    ]),
    renamed('lei_aplicavel', 'analyses.overview_lei_aplicavel'),
    text(
      'regra_impugnacao',
      'Rule that gave the day: what the notice states (date, business days, days, hours), else the law; presumida: no known law is named',
      [
        'Regra do prazo de impugnação',
        'O que deu o último dia: o texto do edital (data, dias úteis, dias corridos, horas) ou a lei; presumida: o edital não nomeia lei conhecida',
      ],
    ),
    date('ultimo_dia_impugnacao', 'Last day to contest, by that rule; national holidays only', [
      'Último dia para impugnar',
      'Último dia para impugnar, segundo a regra; só com feriados nacionais: feriado local o antecipa, confira no edital',
    ]),
    days('dias_ate_impugnacao', 'From today to the last day to contest; negative if it is past', [
      'Dias para impugnar',
      'Dias corridos de hoje até o último dia para impugnar; negativo: já passou',
    ]),
  ],
}
