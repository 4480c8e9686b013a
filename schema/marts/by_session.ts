import { count, type MartColumn, money } from './columns.ts'

/** A phase says nothing of the session: counts and values of notices in progress include sessions that are past. */

/** Makes the columns that split notices by `editais_ativos.situacao_sessao`. @param of the notices, in both languages. */
export function bySession(of: {
  readonly english: string
  readonly portuguese: string
}): readonly MartColumn[] {
  const { english, portuguese } = of
  return [
    count('editais_sessao_futura', `${english} whose session has not begun`, [
      'Editais com sessão futura',
      `Quantidade de ${portuguese} com sessão por vir`,
    ]),
    count('editais_sessao_passada', `${english} whose session is past`, [
      'Editais com sessão passada',
      `Quantidade de ${portuguese} cuja sessão já passou`,
    ]),
    count('editais_sem_sessao', `${english} without a plausible date of the session`, [
      'Editais sem data de sessão',
      `Quantidade de ${portuguese} sem data de sessão plausível`,
    ]),
    money('valor_sessao_futura', 'Sum of the plausible values of those whose session has not begun', [
      'Valor com sessão futura',
      'Soma dos valores informados dos que têm sessão por vir, em BRL',
    ]),
    money('valor_sessao_passada', 'Sum of the plausible values of those whose session is past', [
      'Valor com sessão passada',
      'Soma dos valores informados daqueles cuja sessão já passou, em BRL',
    ]),
    money('valor_sem_sessao', 'Sum of the plausible values of those without a date', [
      'Valor sem data de sessão',
      'Soma dos valores informados dos que não têm data de sessão plausível, em BRL',
    ]),
  ]
}
