import { down, known, median, type Order, sorted, sum } from './arithmetic.ts'
import { localDay, localTime, mondayOf, mondaysAround } from './calendar.ts'
import {
  brief,
  type Card,
  type Cell,
  date,
  labelOf,
  noticeNameOf,
  objectOf,
  type Row,
  WEEKDAYS,
} from './card.ts'
import { decisionCards } from './decisions.ts'
import {
  alertsOf,
  buyersOf,
  bySession,
  coming,
  countedOnce,
  daysTo,
  inDispute,
  isGrave,
  isRisk,
  portionsAhead,
  requirementsOf,
  sessionStateOf,
  sessionsAhead,
  worthOf,
} from './lists.ts'
import { type Notice, PHASES, type Picture, phasesOf } from './picture.ts'
import { priceCards } from './prices.ts'
import { todayCards } from './today.ts'

const DAY_MS = 86_400_000
const MINUTE_MS = 60_000
const GRAVE = ['critical', 'high']

const days = (day: Temporal.PlainDate | null, picture: Picture) => day && daysTo(day, picture)
const number = (name: string, value: number): Row[] => [{ [name]: value }]
const minuteOf = (time: Date) => Math.floor(time.getTime() / MINUTE_MS)
/** Cards round ages to one decimal. */
const roundedDays = (ms: number | null): Cell => ms && Math.round((ms / DAY_MS) * 10) / 10

/** Future days first, then past ones, each nearest first; elements without a day come last. */
function byNearness<T>(distance: (element: T) => number | null): [Order<T>, Order<T>] {
  const far = (element: T) => {
    const days = distance(element)
    return days === null ? null : Math.abs(days)
  }
  const past = (element: T) => {
    const days = distance(element)
    return days === null ? null : Number(days < 0)
  }
  return [past, far]
}

/** Number of elements per name, the most frequent first. */
function frequencies(names: readonly string[]): { name: string; count: number }[] {
  const counts = [...Map.groupBy(names, name => name)].map(([name, same]) => ({ name, count: same.length }))
  return sorted(
    counts,
    down(({ count }) => count),
    ({ name }) => name,
  )
}

function splitBySession<T>(
  notices: readonly Notice[],
  picture: Picture,
  what: (notices: readonly Notice[]) => T,
) {
  const [future, past, none] = bySession(notices, picture)
  return {
    'Sessão futura': what(future ?? []),
    'Sessão passada': what(past ?? []),
    'Sem data': what(none ?? []),
  }
}

const funnel: Readonly<Record<string, Card>> = {
  editais_em_andamento: picture => number('Editais', coming(picture.open, picture).length),

  valor_em_disputa: picture => number('Valor estimado', inDispute(picture.open, picture)),

  disputa_por_parecer: picture => {
    const verdicts = Map.groupBy(coming(picture.open, picture), ({ recommendation }) => recommendation)
    const rows = [...verdicts].map(([verdict, notices]) => {
      const [firm = [], rp = []] = [false, true].map(is => notices.filter(one => one.registersPrices === is))
      const selected = (all: readonly Notice[], isLimited = true) =>
        sum(
          countedOnce(all)
            .filter(one => one.selected.isLimited === isLimited)
            .map(one => Math.round(one.selected.worth * 1e4)),
        ) / 1e4
      return {
        Parecer: labelOf(verdict) ?? 'Sem parecer',
        Editais: firm.length,
        'Valor estimado': worthOf(firm),
        'Itens selecionados': selected(firm),
        'Editais RP': rp.length,
        'Valor RP': worthOf(rp),
        'Itens RP': selected(rp),
        'Sem valor': notices.filter(({ value }) => value === null).length,
        'Itens sem valor do edital': selected(notices, false),
      }
    })
    const place = (verdict: string) => ['Participar', 'Cautela', 'Não recomendado'].indexOf(verdict) + 1
    return sorted(
      rows,
      row => place(row.Parecer) || null,
      row => row.Parecer,
    )
  },

  em_andamento_por_sessao: picture =>
    bySession(picture.open, picture).map((notices, index) => ({
      Sessão: ['Futura', 'Passada', 'Sem data'][index] ?? null,
      Editais: notices.length,
      'Valor estimado': worthOf(notices),
    })),

  tempo_ate_analise: ({ live, history }) => {
    const read = live.filter(
      ({ analysedAt, analysisState }) =>
        analysedAt !== null || !['excluded', 'quarantined'].includes(analysisState),
    )
    const weeks = Map.groupBy(read, ({ createdAt }) => mondayOf(localDay(createdAt)).toString())
    return sorted([...weeks].reverse(), ([monday]) => -new Date(monday).getTime())
      .slice(0, 12)
      .map(([monday, notices]) => {
        const analysed = notices.filter(({ analysedAt }) => analysedAt !== null)
        const measured = analysed.filter(({ createdAt }) => createdAt > history.firstGoodAt)
        const waits = measured.map(({ analysedAt, createdAt }) =>
          Math.max(Number(analysedAt) - createdAt.getTime(), 0),
        )
        return {
          Semana: new Date(monday),
          Editais: notices.length,
          Analisados: analysed.length,
          'Sem análise': notices.length - analysed.length,
          Medidos: measured.length,
          'Mediana (dias)': roundedDays(median(waits)),
          'Maior (dias)': roundedDays(waits.length > 0 ? Math.max(...waits) : null),
        }
      })
  },

  funil_por_fase: picture =>
    PHASES.filter(phase => phase.open).map(({ name, order }) => ({
      Fase: name,
      'Na fase ou adiante': coming(picture.open, picture).filter(
        ({ phase }) => phase.order >= order && phase.order <= 4,
      ).length,
    })),

  fases_em_numeros: picture =>
    phasesOf(picture.live).map(({ status, name }) => {
      const { live, now } = picture
      const notices = live.filter(({ phase }) => phase.status === status)
      const seen = notices.filter(({ entryWasSeen }) => entryWasSeen)
      return {
        Fase: name,
        Editais: notices.length,
        ...splitBySession(notices, picture, ({ length }) => length),
        'Sem valor': notices.filter(({ value }) => value === null).length,
        'Valor total': worthOf(notices),
        'Valor mediano': median(known(notices.map(({ value }) => value))),
        'Idade mediana': roundedDays(
          median(notices.map(({ createdAt }) => now.getTime() - createdAt.getTime())),
        ),
        'Mediana na fase': roundedDays(
          median(seen.map(({ enteredAt }) => now.getTime() - enteredAt.getTime())),
        ),
        'Medidos na fase': seen.length,
        'Já na fase na 1ª leitura': notices.length - seen.length,
      }
    }),

  tempo_por_fase: ({ stays, now }) =>
    phasesOf(stays)
      .filter(({ status }) => stays.some(({ phase }) => phase.status === status))
      .map(({ status, name }) => {
        const here = stays.filter(({ phase }) => phase.status === status)
        const measured = here.filter(({ startWasSeen }) => startWasSeen)
        const over = measured.flatMap(({ from, to }) => (to ? [to.getTime() - from.getTime()] : []))
        const goingOn = measured.flatMap(({ from, to }) => (to ? [] : [now.getTime() - from.getTime()]))
        const finished = here.filter(({ to }) => to).length
        return {
          Fase: name,
          'Concluídas (dias)': roundedDays(median(over)),
          'Em curso (dias)': roundedDays(median(goingOn)),
          'Concluídas medidas': over.length,
          'Concluídas não medidas': finished - over.length,
          'Em curso medidas': goingOn.length,
          'Em curso não medidas': here.length - finished - goingOn.length,
        }
      }),

  valor_por_uf: picture =>
    sorted(
      portionsAhead(picture, ({ uf }) => uf).map(({ name, notices }) => ({
        UF: name,
        'Valor em disputa': inDispute(notices, picture),
        Editais: coming(notices, picture).length,
      })),
      down(row => row['Valor em disputa']),
      row => row.UF,
    ),

  valor_por_modalidade: picture =>
    sorted(
      portionsAhead(picture, ({ modalidade }) => modalidade).map(({ name, notices }) => ({
        Modalidade: brief(name, 30),
        Editais: coming(notices, picture).length,
      })),
      down(row => row.Editais),
      row => row.Modalidade,
    ).slice(0, 12),

  motivos_descarte: ({ live }) =>
    frequencies(
      live
        .filter(({ phase }) => phase.status === 'discarded')
        .map(({ discardReason }) => discardReason ?? 'não informado'),
    )
      .slice(0, 12)
      .map(({ name, count }) => ({ Motivo: brief(name, 30), Editais: count })),

  maiores_editais: picture =>
    sorted(
      countedOnce(sessionsAhead(picture)).filter(({ value }) => value !== null),
      down(({ value }) => value),
      ({ id }) => id,
    )
      .slice(0, 100)
      .map(notice => ({
        Valor: notice.value,
        Órgão: brief(notice.orgao, 50),
        UF: notice.uf,
        Objeto: brief(notice.objeto, 80),
        Modalidade: notice.modalidade,
        Fase: notice.phase.name,
        Sessão: date(notice.session),
        Parecer: labelOf(notice.recommendation),
        PNCP: notice.url,
      })),

  atualizacao: ({ live, history, now }) => [
    {
      'Publicado em': date(localTime(history.lastRun.at)),
      'Idade (min)': minuteOf(now) - minuteOf(history.lastRun.at),
      'Última execução': labelOf(history.lastRun.failed ? 'failed' : 'ok'),
      'Última execução boa': date(localTime(history.lastGoodAt)),
      'Editais ativos': live.length,
      'Análises pendentes': live.filter(({ analysisState }) => analysisState === 'pending').length,
      'Em quarentena': history.setAside.length,
    },
  ],
}

const isRed = ({ colour }: { readonly colour: string | null }) => colour === 'red'
const pending = (picture: Picture) =>
  requirementsOf(picture.open).filter(({ colour }) => colour === 'red' || colour === 'yellow')

const agenda: Readonly<Record<string, Card>> = {
  sessoes_por_semana: picture => {
    const weeks = Map.groupBy(sessionsAhead(picture), ({ sessionDay }) => mondayOf(sessionDay).toString())
    return mondaysAround(picture.today, 0, 11).map(monday => ({
      Semana: date(monday),
      Sessões: weeks.get(monday.toString())?.length ?? 0,
    }))
  },

  pendencias_por_categoria: picture => {
    const ahead = pending(picture).filter(({ notice }) => sessionStateOf(notice, picture) === 'futura')
    const rows = [...Map.groupBy(ahead, ({ category }) => labelOf(category) ?? 'não informada')].map(
      ([category, list]) => ({
        Categoria: category,
        Vermelhos: list.filter(isRed).length,
        Amarelos: list.filter(({ colour }) => colour === 'yellow').length,
      }),
    )
    return sorted(
      rows,
      down(row => row.Vermelhos + row.Amarelos),
      row => row.Categoria,
    ).slice(0, 12)
  },

  a_parte: picture => {
    const [, past = [], undated = []] = bySession(picture.open, picture)
    return [past, undated].map((notices, index) => ({
      Sessão: ['Passada', 'Sem data'][index] ?? null,
      Editais: notices.length,
      Vermelhos: requirementsOf(notices).filter(isRed).length,
      Amarelos: requirementsOf(notices).filter(({ colour }) => colour === 'yellow').length,
      'Alertas críticos': alertsOf(notices).filter(alert => isGrave(alert, ['critical'])).length,
      Valor: worthOf(notices),
    }))
  },

  agenda: picture =>
    sorted(
      sessionsAhead(picture),
      ({ session }) => session.toString(),
      ({ id }) => id,
    )
      .slice(0, 200)
      .map(notice => ({
        Sessão: date(notice.session),
        'Dia da semana': WEEKDAYS[notice.sessionDay.dayOfWeek - 1] ?? null,
        Dias: daysTo(notice.sessionDay, picture),
        'Impugnar até': date(notice.contest?.day ?? null),
        'Regra do prazo': notice.contest?.rule ?? null,
        Certeza: notice.contest?.certainty ?? null,
        Órgão: brief(notice.orgao, 50),
        UF: notice.uf,
        Modalidade: notice.modalidade,
        Número: notice.numero,
        Objeto: objectOf(notice),
        Fase: notice.phase.name,
        Valor: notice.value,
        Parecer: labelOf(notice.recommendation),
        Vermelhos: notice.requirements.filter(({ colour }) => colour === 'red').length,
        Amarelos: notice.requirements.filter(({ colour }) => colour === 'yellow').length,
        'Alertas críticos': notice.alerts.filter(alert => isGrave(alert, ['critical'])).length,
        PNCP: notice.url,
        'Republicado no nº': notice.countsIn && (notice.countsIn.numero ?? 'sem número'),
      })),

  pendencias: picture =>
    sorted(
      pending(picture),
      ({ notice }) => Number(sessionStateOf(notice, picture) !== 'futura'),
      ({ notice }) => notice.sessionDay && Math.abs(daysTo(notice.sessionDay, picture)),
      ({ colour }) => Number(colour !== 'red'),
      ({ notice }) => notice.id,
      ({ ordinal }) => ordinal,
    )
      .slice(0, 200)
      .map(({ notice, ...requirement }) => ({
        'Sessão em': date(notice.sessionDay),
        Dias: days(notice.sessionDay, picture),
        'Situação da sessão': sessionStateOf(notice, picture),
        Cor: requirement.colour === 'red' ? 'vermelho' : 'amarelo',
        Categoria: labelOf(requirement.category),
        Requisito: brief(requirement.title, 80),
        Exigido: brief(requirement.required, 100),
        'Situação atual': brief(requirement.current, 100),
        Edital: noticeNameOf(notice),
        UF: notice.uf,
        Fase: notice.phase.name,
        Notas: requirement.notes,
        PNCP: notice.url,
      })),
}

const ahead = (picture: Picture) => alertsOf(coming(picture.open, picture))
const grave = (picture: Picture, severities = GRAVE) =>
  ahead(picture).filter(alert => isGrave(alert, severities))

const risks: Readonly<Record<string, Card>> = {
  alertas_criticos: picture => number('Alertas', grave(picture, ['critical']).length),

  editais_com_risco: picture =>
    number('Editais', new Set(grave(picture).map(({ notice }) => notice.id)).size),

  prazos_abertos: picture =>
    number(
      'Alertas',
      alertsOf(picture.open).filter(({ deadline }) => deadline && daysTo(deadline, picture) >= 0).length,
    ),

  alertas_por_severidade: picture => {
    const action = (alert: { readonly action: string | null }) => alert.action ?? 'Nenhuma'
    const parts = Map.groupBy(
      ahead(picture).filter(isRisk),
      alert => `${alert.severityName} ${action(alert)}`,
    )
    const rows = [...parts.values()].flatMap(([first, ...more]) =>
      first ? [{ ...first, action: action(first), count: 1 + more.length }] : [],
    )
    return sorted(
      rows,
      ({ severityOrder }) => severityOrder,
      ({ severityName }) => severityName,
      ({ action }) => action,
    ).map(({ severityName, action, count }) => ({ Severidade: severityName, Ação: action, Alertas: count }))
  },

  alertas_por_tipo: picture =>
    frequencies(ahead(picture).map(({ type }) => labelOf(type) ?? 'não informado'))
      .slice(0, 12)
      .map(({ name, count }) => ({ Tipo: name, Alertas: count })),

  orgaos_com_alertas: picture => {
    const buyers = Map.groupBy(grave(picture), ({ notice }) => notice.cnpj ?? notice.orgao)
    const rows = [...buyers.values()].map(list => ({
      Órgão: brief(known(list.map(({ notice }) => notice.orgao))[0] ?? null, 60) ?? 'não informado',
      Alertas: list.length,
    }))
    return sorted(
      rows,
      down(row => row.Alertas),
      row => row.Órgão,
    ).slice(0, 12)
  },

  alertas: picture => {
    const [isPast, distance] = byNearness<ReturnType<typeof grave>[number]>(({ deadline }) =>
      days(deadline, picture),
    )
    return sorted(
      alertsOf(picture.open),
      alert => (isPast(alert) === 0 ? distance(alert) : null),
      ({ notice }) => Number(sessionStateOf(notice, picture) !== 'futura'),
      distance,
      alert => Number(!isRisk(alert)),
      ({ severityOrder }) => severityOrder,
      ({ notice }) => notice.id,
      ({ ordinal }) => ordinal,
    )
      .slice(0, 200)
      .map(({ notice, ...alert }) => ({
        Prazo: date(alert.deadline),
        Dias: days(alert.deadline, picture),
        'Regra do prazo': alert.deadlineRule,
        Certeza: alert.deadlineCertainty,
        Ação: alert.action,
        Tipo: labelOf(alert.type),
        Severidade: isRisk(alert) ? alert.severityName : null,
        Alerta: brief(alert.title, 80),
        Descrição: brief(alert.description, 120),
        'Tese jurídica': alert.thesis,
        Edital: noticeNameOf(notice),
        UF: notice.uf,
        Objeto: objectOf(notice),
        Fase: notice.phase.name,
        'Sessão em': date(notice.sessionDay),
        'Situação da sessão': sessionStateOf(notice, picture),
        PNCP: notice.url,
      }))
  },

  risco_pagamento: picture =>
    sorted(
      buyersOf(picture)
        .filter(({ risk }) => risk !== null)
        .filter(({ uf }) => picture.state === null || uf === picture.state),
      down(({ open }) => inDispute(open, picture)),
      down(({ value }) => value),
      ({ orgao }) => orgao,
    )
      .slice(0, 100)
      .map(({ orgao, uf, risk, open, value, nextSession }) => ({
        Órgão: brief(orgao, 50),
        UF: uf,
        'Risco de pagamento': labelOf(risk?.value ?? null),
        'Relatório do órgão': labelOf(risk?.report ?? null),
        Precificação: labelOf(risk?.pricing ?? null),
        Editais: open.length,
        'Com sessão futura': coming(open, picture).length,
        'Valor em andamento': value,
        'Valor em disputa': inDispute(open, picture),
        'Próxima sessão': date(nextSession),
      })),
}

/** All cards, by key. */
export const CARDS: Readonly<Record<string, Card>> = {
  ...todayCards,
  ...funnel,
  ...agenda,
  ...risks,
  ...decisionCards,
  ...priceCards,
}
