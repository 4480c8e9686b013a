import { down, sorted, sum } from './arithmetic.ts'
import { mondayOf } from './calendar.ts'
import { type Card, date, labelOf, WEEKDAYS } from './card.ts'
import {
  blockersOf,
  capitalOf,
  discardsOf,
  exposureOf,
  missedLately,
  missedOf,
  priceBandsOf,
  sessionWeeksOf,
  verdictChangesOf,
  workdaysOf,
} from './decisions.ts'
import { worthOf } from './lists.ts'

/** The cards of the dashboard on decisions. */

const WEEK = ['Seg', 'Ter', 'Qua', 'Qui', 'Sex', 'Sáb', 'Dom']

export const decisionCards: Readonly<Record<string, Card>> = {
  descartes_recomendados: picture =>
    discardsOf(picture)
      .slice(0, 50)
      .map(({ reason, verdict, notices, worth }) => ({
        Motivo: reason,
        Recomendação: verdict,
        Editais: notices.length,
        'Sem valor': notices.filter(({ value }) => value === null).length,
        'Valor total': worth,
      })),

  perdidas_por_semana: picture => {
    const weeks = Map.groupBy(missedLately(picture), ({ sessionDay }) => mondayOf(sessionDay).toString())
    return sorted([...weeks], ([monday]) => monday).map(([monday, those]) => ({
      Semana: new Date(monday),
      Participar: those.filter(({ recommendation }) => recommendation === 'participar').length,
      Cautela: those.filter(({ recommendation }) => recommendation === 'cautela').length,
    }))
  },

  sessoes_perdidas: picture =>
    sorted(
      missedOf(picture),
      ({ ago }) => ago,
      down(({ value }) => value),
      ({ id }) => id,
    )
      .slice(0, 200)
      .map(notice => ({
        Sessão: date(notice.sessionDay),
        'Há (dias)': notice.ago,
        Órgão: notice.orgao,
        UF: notice.uf,
        Número: notice.numero,
        Objeto: notice.objeto,
        Fase: notice.phase.name,
        Recomendação: labelOf(notice.recommendation),
        'Valor estimado': notice.value,
        Vermelhos: notice.requirements.filter(({ colour }) => colour === 'red').length,
        PNCP: notice.url,
      })),

  carga_da_semana: picture =>
    workdaysOf(picture)
      .slice(0, 7)
      .map(({ day, holiday, sessions, red, yellow, deadlines }) => ({
        Dia: date(day),
        'Dia da semana': WEEKDAYS[day.dayOfWeek - 1] ?? null,
        Feriado: holiday,
        Sessões: sessions.length,
        Confirmadas: sessions.filter(({ confirmed }) => confirmed).length,
        Vermelhos: red,
        Amarelos: yellow,
        'Valor das sessões': worthOf(sessions),
        'Alertas com prazo': deadlines,
      })),

  carga_por_semana: picture => {
    const weeks = Map.groupBy(workdaysOf(picture), ({ week }) => week.toString())
    return [...weeks].slice(0, 8).map(([monday, days]) => ({
      Semana: new Date(monday),
      Vermelhos: sum(days.map(({ red }) => red)),
      Amarelos: sum(days.map(({ yellow }) => yellow)),
      Sessões: sum(days.map(({ sessions }) => sessions.length)),
    }))
  },

  mapa_de_prazos: picture => {
    const weeks = Map.groupBy(workdaysOf(picture), ({ week }) => week.toString())
    return [...weeks].map(([monday, days]) => ({
      Semana: new Date(monday),
      ...Object.fromEntries(
        WEEK.map((name, index) => [
          name,
          days.find(({ day }) => day.dayOfWeek === index + 1)?.deadlines ?? null,
        ]),
      ),
    }))
  },

  capital_por_semana: picture =>
    sessionWeeksOf(picture)
      .slice(0, 12)
      .map(({ monday, notices }) => {
        const { proposal, contract, investment } = capitalOf(notices)
        return {
          Semana: date(monday),
          'Garantias de proposta': proposal,
          'Garantias contratuais': contract,
          Investimento: investment,
        }
      }),

  requisitos_bloqueantes: picture =>
    blockersOf(picture)
      .slice(0, 50)
      .map(({ title, category, notices, alone, next, undated }) => ({
        Requisito: title,
        Categoria: labelOf(category) ?? 'não informada',
        Editais: notices.length,
        'Valor bloqueado': worthOf(notices),
        'Só este requisito': alone.length,
        'Valor só deste': worthOf(alone),
        'Próxima sessão': date(next),
        'Sem data': undated,
      })),

  exposicao_pagamento: picture =>
    exposureOf(picture).map(({ label, notices, confirmed, worth, future }) => ({
      'Risco de pagamento': label,
      Editais: notices.length,
      Confirmados: confirmed.length,
      'Valor em andamento': worth,
      'Valor em disputa': future,
      'Valor confirmado': worthOf(confirmed),
    })),

  mudancas_parecer: picture =>
    verdictChangesOf(picture)
      .slice(0, 100)
      .map(({ day, orgao, objeto, from, to, sense, reason }) => ({
        'Visto em': date(day),
        Órgão: orgao,
        Objeto: objeto,
        De: from,
        Para: to,
        Sentido: sense,
        Motivo: reason,
      })),

  faixas_de_preco: picture =>
    priceBandsOf(picture)
      .slice(0, 100)
      .map(({ description, unit, items, notices, p10, median, p90 }) => ({
        Item: description,
        Unidade: unit,
        Editais: notices,
        Itens: items,
        '10% custam até': p10,
        'Metade custa até': median,
        '90% custam até': p90,
      })),
}
