import { down, known, median, sorted, sum } from './arithmetic.ts'
import { daysBetween, goodFriday, localDay, localTime, mondayOf, mondaysAround } from './calendar.ts'
import { brief, type Card, date, labelOf, noticeNameOf, objectOf, WEEKDAYS } from './card.ts'
import {
  alertsOf,
  bySession,
  countedOnce,
  daysTo,
  requirementsOf,
  sessionStateOf,
  sessionsAhead,
  worthOf,
} from './lists.ts'
import { partChangesOf } from './part_changes.ts'
import type { Notice, Picture } from './picture.ts'
import { mostFrequent, plain, seen } from './spelling.ts'

/** The figures of decisions: made, missed, and to come. */

const RECOMMENDED = ['participar', 'cautela']
const WEEKS_DAYS = 56

type Day = Temporal.PlainDate

export function isRecommended({ recommendation }: Pick<Notice, 'recommendation'>): boolean {
  return recommendation !== null && RECOMMENDED.includes(recommendation)
}

/** Sums of cents, exact in any order. */
function total(values: readonly (number | null)[]): number {
  return sum(known(values).map(value => Math.round(value * 100))) / 100
}

function discardsOf(past: ReturnType<typeof againstLately>['ahead']) {
  const cases = [
    ...past['Participar, mas descartado'].map(one => [one.discardReason ?? 'não informado', one] as const),
    ...past['Não recomendado, mas confirmado'].map(one => ['Participação confirmada', one] as const),
  ]
  const together = Map.groupBy(cases, ([reason, one]) => `${brief(reason, 80)}\n${one.recommendation}`)
  const groups = [...together].map(([key, these]) => [key, these.map(([, one]) => one)] as const)
  return sorted(
    groups.map(([key, notices]) => ({
      reason: key.split('\n')[0] ?? '',
      verdict: labelOf(key.split('\n')[1] ?? null),
      notices,
      worth: worthOf(notices),
    })),
    down(({ worth }) => worth),
    down(({ notices }) => notices.length),
    ({ reason }) => reason,
    ({ verdict }) => verdict,
  )
}

type Missed = Notice & { readonly sessionDay: Day; readonly ago: number }

/** Recommended, nobody confirmed, and the session is over; without discarded notices. */
function missedOf(picture: Picture): Missed[] {
  return picture.live
    .filter(notice => notice.phase.status !== 'discarded' && !notice.confirmed && isRecommended(notice))
    .filter((notice): notice is Missed => notice.sessionDay !== null)
    .filter(notice => sessionStateOf(notice, picture) === 'passada')
    .map(notice => ({ ...notice, ago: -daysTo(notice.sessionDay, picture) }))
}

/** Those of this week and of the eleven before it. */
function isLate({ sessionDay }: Notice, { today }: Picture): boolean {
  return sessionDay !== null && daysBetween(mondayOf(sessionDay), mondayOf(today)) <= 11 * 7
}

/** Notices that were decided against the analysis: those of these weeks, and those that can still be reversed. */
export function againstLately(picture: Picture) {
  const [ahead = [], past = []] = bySession(picture.live, picture)
  const isDiscarded = ({ phase }: Notice) => phase.status === 'discarded'
  const cases = (notices: readonly Notice[], isOver: boolean) => {
    const advised = notices.filter(({ recommendation }) => recommendation === 'participar')
    const warned = notices.filter(({ recommendation }) => recommendation === 'nao_recomendado')
    return {
      'Participar, mas descartado': advised.filter(isDiscarded),
      'Participar, mas não confirmado': advised.filter(one => isOver && !isDiscarded(one) && !one.confirmed),
      'Não recomendado, mas confirmado': warned.filter(one => !isDiscarded(one) && one.confirmed),
    }
  }
  const lately = past.filter(notice => isLate(notice, picture))
  return { past: cases(lately, true), ahead: cases(ahead, false) }
}

/** Red requirements of notices whose session is not past. Titles are compared as readers see them, without case and accents. */
export function blockersOf(picture: Picture) {
  const blocked = picture.open.filter(notice => sessionStateOf(notice, picture) !== 'passada')
  const red = requirementsOf(blocked)
    .filter(({ colour }) => colour === 'red')
    .map(({ category, title, notice }) => {
      const written = seen(title) ?? 'sem título'
      return { category, written, notice, key: `${category}\n${plain(written)}` }
    })
  const keysOf = Map.groupBy(red, ({ notice }) => notice.id)
  return sorted(
    [...Map.groupBy(red, ({ key }) => key).values()].map(those => {
      const all = [...new Map(those.map(({ notice }) => [notice.id, notice])).values()]
      const notices = all.filter(notice => sessionStateOf(notice, picture) === 'futura')
      return {
        category: those[0]?.category ?? null,
        title: mostFrequent(all.map(({ id }) => firstOf(those.filter(({ notice }) => notice.id === id)))),
        notices,
        // In no other figure.
        undated: all.length - notices.length,
        alone: notices.filter(({ id }) => new Set(keysOf.get(id)?.map(({ key }) => key)).size === 1),
        next: sorted(known(notices.map(({ sessionDay }) => sessionDay)), day => day.toString())[0] ?? null,
      }
    }),
    down(({ notices }) => worthOf(notices)),
    down(({ notices }) => notices.length),
    ({ category }) => category,
    ({ title }) => title,
  )
}

/** Requirements that three live notices or more have, with the worst colour that each of these gives them. */
function oftenRequiredOf(picture: Picture) {
  const demanding = picture.live.filter(({ requirements }) => requirements.length > 0)
  const all = requirementsOf(demanding).map(({ category, title, colour, notice }) => {
    const written = seen(title) ?? 'sem título'
    return { category, written, colour, notice, key: `${category}\n${plain(written)}` }
  })
  const rows = [...Map.groupBy(all, ({ key }) => key).values()].map(those => {
    const byNotice = [...Map.groupBy(those, ({ notice }) => notice.id).values()]
    const open = byNotice.filter(
      ([one]) => one?.notice.phase.open && sessionStateOf(one.notice, picture) !== 'passada',
    )
    const worst = open.map(mine =>
      ['red', 'yellow', 'green'].find(colour => mine.some(one => one.colour === colour)),
    )
    const coloured = (wanted: string) => worst.filter(colour => colour === wanted).length
    return {
      category: those[0]?.category ?? null,
      title: mostFrequent(byNotice.map(firstOf)),
      notices: byNotice.length,
      share: byNotice.length / demanding.length,
      ...{ red: coloured('red'), yellow: coloured('yellow'), green: coloured('green') },
    }
  })
  return sorted(
    rows.filter(({ notices }) => notices >= 3),
    down(({ notices }) => notices),
    ({ category }) => category,
    ({ title }) => title,
  )
}

/** How many days before their sessions the notices of each buyer arrived. */
function leadTimesOf(picture: Picture) {
  const measured = sorted(picture.live, ({ updatedAt }) => -updatedAt.getTime()).flatMap(notice => {
    const arrived = localDay(notice.createdAt)
    const days = notice.sessionDay && daysBetween(arrived, notice.sessionDay)
    return days !== null && days >= 0 ? [{ ...notice, days }] : []
  })
  const buyers = Map.groupBy(measured, ({ cnpj, orgao }) => cnpj ?? orgao ?? 'não informado')
  const rows = [...buyers].map(([key, notices]) => {
    const days = notices.map(notice => notice.days)
    const latest = (what: (notice: Notice) => string | null) => known(notices.map(what))[0] ?? null
    return {
      ...{ key, notices, days, middle: median(days) ?? 0 },
      ...{ orgao: latest(({ orgao }) => orgao), uf: latest(({ uf }) => uf) },
    }
  })
  return sorted(
    rows,
    ({ middle }) => middle,
    down(({ notices }) => notices.length),
    ({ key }) => key,
  )
}

/** What a notice calls a requirement. */
function firstOf(those: readonly { readonly written: string }[]): string {
  return those.map(({ written }) => written).sort()[0] ?? ''
}

function workdaysOf(picture: Picture) {
  const sessions = sessionsAhead(picture)
  const deadlines = known(alertsOf(picture.open).map(({ deadline }) => deadline))
  return Array.from({ length: WEEKS_DAYS }, (_, distance) => {
    const day = picture.today.add({ days: distance })
    const those = sessions.filter(({ sessionDay }) => sessionDay.equals(day))
    const coloured = (wanted: string) =>
      requirementsOf(those).filter(({ colour }) => colour === wanted).length
    return {
      day,
      week: mondayOf(day),
      distance,
      holiday: holidayOf(day),
      sessions: those,
      red: coloured('red'),
      yellow: coloured('yellow'),
      deadlines: deadlines.filter(deadline => deadline.equals(day)).length,
    }
  })
}

const HOLIDAYS: Readonly<Record<string, string>> = {
  '01-01': 'Confraternização Universal',
  '04-21': 'Tiradentes',
  '05-01': 'Dia do Trabalho',
  '09-07': 'Independência do Brasil',
  '10-12': 'Nossa Senhora Aparecida',
  '11-02': 'Finados',
  '11-15': 'Proclamação da República',
  '11-20': 'Dia Nacional de Zumbi e da Consciência Negra',
  '12-25': 'Natal',
}

function holidayOf(day: Day): string | null {
  return HOLIDAYS[day.toString().slice(5)] ?? (day.equals(goodFriday(day.year)) ? 'Paixão de Cristo' : null)
}

/** Sessions ahead by week. */
function sessionWeeksOf(picture: Picture) {
  const weeks = Map.groupBy(sessionsAhead(picture), ({ sessionDay }) => mondayOf(sessionDay).toString())
  return sorted([...weeks], ([monday]) => monday).map(([monday, notices]) => ({
    monday: Temporal.PlainDate.from(monday),
    notices,
  }))
}

export function capitalOf(notices: readonly Notice[]) {
  return {
    proposal: total(notices.map(({ capital }) => capital.proposal)),
    contract: total(notices.map(({ capital }) => capital.contract)),
    investment: total(notices.map(({ capital }) => capital.investment)),
  }
}

const RISK_ORDER = ['baixo', 'medio', 'alto', 'critico', 'desconhecido']

export function exposureOf(picture: Picture) {
  const groups = [...Map.groupBy(picture.open, ({ risk }) => risk.value)]
  return sorted(
    groups.map(([risk, notices]) => ({
      risk,
      label: labelOf(risk) ?? 'não avaliado',
      order: risk === null ? 7 : RISK_ORDER.indexOf(risk) + 1 || 6,
      notices,
      worth: worthOf(notices),
      future: worthOf(bySession(notices, picture)[0] ?? []),
      confirmed: notices.filter(({ confirmed }) => confirmed),
    })),
    ({ order }) => order,
    ({ risk }) => risk,
  )
}

function verdictChangesOf({ all, newVerdicts }: Picture) {
  return sorted(
    newVerdicts,
    down(({ at }) => at.getTime()),
    ({ noticeId }) => noticeId,
  ).map(({ noticeId, at, from, to, reason }) => ({
    day: localDay(at),
    notice: all.find(({ id }) => id === noticeId) as Notice,
    from: labelOf(from),
    to: labelOf(to),
    sense: senseOf(from, to),
    reason,
  }))
}

const BEST_FIRST = ['participar', 'cautela', 'nao_recomendado']

function senseOf(from: string | null, to: string | null): string {
  if (from === null) return 'novo'
  if (to === null) return 'retirado'
  const [before, after] = [BEST_FIRST.indexOf(from), BEST_FIRST.indexOf(to)]
  if (before < 0 || after < 0) return 'outro'
  return after < before ? 'melhor' : 'pior'
}

/** How many hours had passed since the last good run, at most, on each day from the first run on. */
function serviceOf({ today, now, history: { readings } }: Picture) {
  const local = readings.map(({ at, served }) => ({ at: localTime(at), isGood: served !== null }))
  const good = local.filter(({ isGood }) => isGood).map(({ at }) => at)
  const first = local[0]?.at.toPlainDate() ?? today
  return Array.from({ length: daysBetween(first, today) + 1 }, (_, ago) => {
    const day = today.subtract({ days: ago })
    const those = local.filter(({ at }) => at.toPlainDate().equals(day))
    const end = day.equals(today) ? localTime(now) : day.add({ days: 1 }).toPlainDateTime()
    const ages = [...good.filter(at => at.toPlainDate().equals(day)), end].map(moment => {
      const last = good.findLast(at => Temporal.PlainDateTime.compare(at, moment) < 0)
      return last ? last.until(moment).total('hours') : null
    })
    return { day, those, ...{ good: those.filter(({ isGood }) => isGood), longest: known(ages) } }
  })
}

/** The cards of the dashboard on decisions. */

const WEEK = ['Seg', 'Ter', 'Qua', 'Qui', 'Sex', 'Sáb', 'Dom']

export const decisionCards: Readonly<Record<string, Card>> = {
  descartes_recomendados: picture =>
    Object.entries(againstLately(picture))
      .toSorted()
      .flatMap(([when, cases]) => discardsOf(cases).map(group => ({ ...group, when })))
      .slice(0, 50)
      .map(({ when, reason, verdict, notices, worth }) => ({
        Quando: when === 'ahead' ? 'por vir' : 'passada',
        Motivo: reason,
        Parecer: verdict,
        Editais: notices.length,
        'Sem valor': notices.filter(({ value }) => value === null).length,
        'Valor total': worth,
      })),

  perdidas_por_semana: picture => {
    const weeks = Map.groupBy(
      missedOf(picture).filter(notice => isLate(notice, picture)),
      ({ sessionDay }) => mondayOf(sessionDay).toString(),
    )
    return mondaysAround(picture.today, -11, 0).map(monday => {
      const those = weeks.get(monday.toString()) ?? []
      return {
        Semana: date(monday),
        Participar: those.filter(({ recommendation }) => recommendation === 'participar').length,
        Cautela: those.filter(({ recommendation }) => recommendation === 'cautela').length,
      }
    })
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
        'Sessão em': date(notice.sessionDay),
        'Há (dias)': notice.ago,
        Órgão: brief(notice.orgao, 50),
        UF: notice.uf,
        Número: notice.numero,
        Objeto: objectOf(notice),
        Fase: notice.phase.name,
        Parecer: labelOf(notice.recommendation),
        Valor: notice.value,
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

  capital_por_semana: picture => {
    const weeks = sessionWeeksOf({ ...picture, open: countedOnce(picture.open) })
    return mondaysAround(picture.today, 0, 11).map(monday => {
      const notices = weeks.find(week => week.monday.equals(monday))?.notices ?? []
      const [sure, unsure] = [true, false].map(is => capitalOf(notices.filter(one => one.confirmed === is)))
      return {
        Semana: date(monday),
        'Na sessão, confirmado': sure?.proposal ?? 0,
        'Na sessão, a confirmar': unsure?.proposal ?? 0,
        'Na assinatura, confirmado': total([sure?.contract ?? 0, sure?.investment ?? 0]),
        'Na assinatura, a confirmar': total([unsure?.contract ?? 0, unsure?.investment ?? 0]),
      }
    })
  },

  requisitos_bloqueantes: picture =>
    blockersOf(picture)
      .slice(0, 50)
      .map(({ title, category, notices, alone, next, undated }) => ({
        Requisito: brief(title, 80),
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

  documentos_frequentes: picture =>
    oftenRequiredOf(picture)
      .slice(0, 50)
      .map(({ title, category, notices, share, red, yellow, green }) => ({
        Requisito: brief(title, 80),
        Categoria: labelOf(category) ?? 'não informada',
        Editais: notices,
        '% dos editais': Math.round(100 * share),
        Vermelhos: red,
        Amarelos: yellow,
        Verdes: green,
      })),

  antecedencia_por_orgao: picture =>
    leadTimesOf(picture)
      .filter(({ notices }) => notices.length > 2)
      .slice(0, 50)
      .map(({ orgao, uf, notices, days, middle }) => ({
        Órgão: brief(orgao ?? 'não informado', 60),
        UF: uf,
        Editais: notices.length,
        'Menos de 8 dias corridos': days.filter(one => one < 8).length,
        'Menor (dias)': Math.min(...days),
        'Mediana (dias)': Math.round(middle * 10) / 10,
      })),

  participacao_me_epp: picture => {
    const nameOf = ({ isReserved }: Notice) =>
      isReserved === null ? 'não informado' : isReserved ? 'exclusivo' : 'não exclusivo'
    const groups = [...Map.groupBy(picture.live, nameOf)]
    return sorted(groups, ([name]) => name).map(([name, notices]) => {
      const open = notices.filter(({ phase }) => phase.open)
      return {
        Participação: name,
        Editais: notices.length,
        'Em andamento': open.length,
        Confirmados: notices.filter(({ confirmed }) => confirmed).length,
        'Valor em andamento': worthOf(open),
        'Valor em disputa': worthOf(sessionsAhead({ ...picture, open })),
        'Valor total': worthOf(notices),
      }
    })
  },

  mudancas_parecer: picture =>
    verdictChangesOf(picture)
      .slice(0, 100)
      .map(({ day, notice, from, to, sense, reason }) => ({
        'Visto em': date(day),
        Órgão: brief(notice.orgao, 50),
        Objeto: objectOf(notice),
        De: from,
        Para: to,
        Sentido: sense,
        Motivo: brief(reason, 90),
        PNCP: notice.url,
      })),

  mudancas_analise: picture =>
    partChangesOf(picture)
      .slice(0, 100)
      .map(({ notice, at, part, title, from, to, sense }) => ({
        'Visto em': date(localDay(at)),
        Parte: part,
        'Requisito ou alerta': brief(title, 70),
        Antes: from,
        Agora: to,
        Sentido: sense,
        Sessão: date(notice.session),
        Edital: noticeNameOf(notice),
        Objeto: objectOf(notice),
        PNCP: notice.url,
      })),

  servico: picture =>
    serviceOf(picture)
      .slice(0, 14)
      .map(({ day, those, good, longest }) => ({
        Dia: date(day),
        Execuções: those.length,
        Boas: good.length,
        'Boas (%)': those.length > 0 ? Math.round((100 * good.length) / those.length) : null,
        'Maior intervalo (h)': longest.length > 0 ? Math.round(10 * Math.max(...longest)) / 10 : null,
      })),
}
