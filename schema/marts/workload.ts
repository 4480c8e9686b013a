import { calendario } from './basics.ts'
import { count, date, days, derived, type Mart, money, of, ofCompany } from './columns.ts'
import { agendaSessoes } from './notices.ts'

/** The work ahead, day by day. */

export const cargaDeTrabalho: Mart = {
  name: 'carga_de_trabalho',
  description:
    'The next 56 days, today included, one row each: sessions and deadlines of notices in progress, and their open requirements',
  portuguese: [
    'Carga de trabalho',
    'Os próximos 56 dias, a começar por hoje, um por linha: sessões e prazos dos editais em andamento, e o que falta para a habilitação',
  ],
  columns: [
    ...ofCompany,
    date('dia', 'Local day', ['Dia', 'Dia, no fuso local']),
    date('semana', 'Monday of the week', ['Semana', 'Segunda-feira da semana']),
    ...of(agendaSessoes, 'dia_da_semana'),
    derived('INTEGER', 'dia_da_semana_ordem', 'Day of the week from 1, Monday, to 7, Sunday', [
      'Ordem do dia da semana',
      'Dia da semana, de 1 (segunda) a 7 (domingo)',
    ]),
    days('dias_ate', 'Days from today, 0 to 55', ['Dias até lá', 'Dias a partir de hoje, de 0 a 55']),
    ...of(calendario, 'dia_util', 'feriado'),
    count('sessoes', 'Sessions', ['Sessões', 'Quantidade de sessões de editais em andamento no dia']),
    count('sessoes_confirmadas', 'Sessions in which the company confirmed to take part', [
      'Sessões confirmadas',
      'Quantidade dessas sessões com participação confirmada',
    ]),
    count('requisitos_vermelhos', 'Red requirements of these notices', [
      'Requisitos vermelhos',
      'Requisitos em vermelho desses editais',
    ]),
    count('requisitos_amarelos', 'Yellow requirements of these notices', [
      'Requisitos amarelos',
      'Requisitos em amarelo desses editais',
    ]),
    money('valor_total', 'Sum of the plausible values of these notices', [
      'Valor das sessões',
      'Soma dos valores estimados informados desses editais, em BRL',
    ]),
    count('alertas_com_prazo', 'Alerts whose deadline to contest or to ask is on that day', [
      'Alertas com prazo',
      'Quantidade de alertas com prazo de impugnação ou esclarecimento no dia',
    ]),
    count('editais_com_prazo', 'Notices with such an alert', [
      'Editais com prazo',
      'Quantidade de editais com um desses alertas',
    ]),
  ],
}
