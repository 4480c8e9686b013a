import { date, days, type Mart, of, renamed, same, text } from './columns.ts'
import { editaisAtivos } from './live_notices.ts'

/** Until when a notice may be contested. */

export const prazosImpugnacao: Mart = {
  name: 'prazos_impugnacao',
  orderBy: 'edital_id',
  description:
    'Last day to contest each live notice that has a session or states a day, and to ask questions about it, with the rule that gave the day',
  portuguese: [
    'Prazos de impugnação',
    'Último dia para impugnar cada edital ativo e para pedir esclarecimentos, com a regra que deu o dia: o edital ou, na falta, a lei',
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
      'Rule that gave the day: what the notice states (date, business days, days, hours), else the law; presumida: no known law is named; a second one that gives a later day follows',
      [
        'Regra do prazo de impugnação',
        'O que deu o último dia: o texto do edital (data, dias úteis, dias corridos, horas) ou a lei; presumida: o edital não nomeia lei conhecida; depois de ponto e vírgula, a regra que daria outro dia',
      ],
    ),
    date(
      'ultimo_dia_impugnacao',
      'Last day to contest: the earlier one if several rules or optional days off leave a choice; national holidays and those of the state, not of the city; NULL for direct contracting without a stated term',
      [
        'Último dia para impugnar',
        'Último dia para impugnar, segundo a regra; na dúvida, o mais cedo; com feriados nacionais e do estado: feriado municipal o antecipa, confira no edital; vazio: contratação direta sem prazo no edital',
      ],
    ),
    days(
      'dias_ate_impugnacao',
      'From today to the last day to contest; negative if it is past, or the session has begun',
      [
        'Dias para impugnar',
        'Dias corridos de hoje até o último dia para impugnar; negativo: já passou, ou a sessão já começou',
      ],
    ),
    text(
      'certeza_impugnacao',
      'do edital: stated; da lei: by the law that the notice names; presumido: by Lei 14.133/2021 or a regulation that is not known; a confirmar: the text, the law or an optional day off leave another day possible',
      [
        'Certeza do prazo de impugnação',
        'do edital: escrito nele; da lei: da lei que o edital nomeia; presumido: lei ou regulamento presumido; a confirmar: texto, lei ou ponto facultativo deixam outro dia possível, e este é o mais cedo',
      ],
    ),
    text('ato_lido', 'Act that the clause names; NULL if it names none, or the day is by law', [
      'Ato nomeado',
      'Ato que a cláusula nomeia: impugnação; vazio quando não nomeia nenhum ou o dia vem da lei',
    ]),
    text('trecho_lido', 'Clause of the notice that the day was read from; NULL if the day is by law', [
      'Trecho do prazo de impugnação',
      'Cláusula do edital da qual o dia foi lido; vazio quando o dia vem da lei',
    ]),
    date('ultimo_dia_esclarecimento', 'Last day to ask questions, by the same rules', [
      'Último dia para pedir esclarecimentos',
      'Último dia para pedir esclarecimentos, pelas mesmas regras',
    ]),
    days(
      'dias_ate_esclarecimento',
      'From today to the last day to ask questions; negative if it is past, or the session has begun',
      [
        'Dias para pedir esclarecimentos',
        'Dias corridos de hoje até o último dia para pedir esclarecimentos; negativo: já passou, ou a sessão já começou',
      ],
    ),
    text('regra_esclarecimento', 'Rule that gave the day to ask questions', [
      'Regra do prazo de esclarecimento',
      'O que deu o último dia para pedir esclarecimentos: o texto do edital ou a lei',
    ]),
    text(
      'certeza_esclarecimento',
      'As certeza_impugnacao; presumido also if the notice states only a day to contest',
      [
        'Certeza do prazo de esclarecimento',
        'do edital, da lei, presumido (também quando o edital só traz o prazo de impugnação) ou a confirmar',
      ],
    ),
    text('trecho_esclarecimento', 'Clause of the notice that the day to ask questions was read from', [
      'Trecho do prazo de esclarecimento',
      'Cláusula do edital da qual o dia para esclarecimentos foi lido; vazio quando vem da lei',
    ]),
  ],
}

/** The columns of `prazos_impugnacao` that do not change from day to day. */
export const prazosCalculados: Mart = {
  name: 'prazos_calculados',
  storedFrom: {
    editais: ['edital_id', 'deleted_at', 'data_sessao', 'modalidade', 'uf'],
    analyses: ['edital_id', 'prazos_lidos', 'overview_prazo_impugnacao', 'overview_lei_aplicavel'],
  },
  orderBy: 'edital_id',
  description:
    'What prazos_impugnacao has, without the distances from today; stored, and computed again only if its inputs change',
  portuguese: [
    'Prazos calculados',
    'Os mesmos prazos de prazos_impugnacao, sem os dias que faltam; guardados, e recalculados só quando mudam os dados de que dependem',
  ],
  columns: prazosImpugnacao.columns.filter(({ name }) => !name.startsWith('dias_ate_')),
}
