/** The report's figures, as `queries.ts` reads them and the sections show them. */

/** How many days the lists cover, today included, and their maximum lengths. The report shows how many more there are. */
export const LIMITS = {
  sessionDays: 30,
  soonDays: 7,
  weeks: 12,
  decisions: 6,
  news: 8,
  sessions: 15,
  alerts: 10,
  buyers: 10,
  demands: 8,
  problems: 10,
} as const

export type Freshness = {
  readonly company: string
  readonly snapshot: string
  readonly publicado_em: Date
  readonly timezone: string
  readonly ultima_execucao_em: Date | null
  readonly ultima_execucao_status: string | null
  readonly ultima_execucao_erro: string | null
  readonly ultima_boa_em: Date | null
  /** When the whole list was read last, also by a run that could not fetch every analysis. */
  readonly listada_em: Date | null
  readonly editais_ativos: number
  readonly analises_atuais: number
  readonly pendentes: number
  /** Notices whose analyses are not fetched, by ANALYSIS_STATUSES. */
  readonly excluidos: number
  readonly em_quarentena: number
  readonly desvios: number
}

/** Notices in progress by the day of their session: a phase does not show it. Values in BRL. */
export type BySession = {
  /** Their session has not begun. */
  readonly futuras: number
  readonly passadas: number
  readonly sem_data: number
  readonly valor_futuras: number
  readonly valor_passadas: number
  readonly valor_sem_data: number
}

export type KeyFigures = BySession & {
  readonly em_andamento: number
  readonly confirmados: number
  readonly sem_valor: number
  readonly suspeitos: number
  readonly sessoes_7_dias: number
  readonly requisitos_vermelhos: number
  readonly editais_com_vermelho: number
  /** Apart: red requirements of notices whose session is past, and of those without a date. */
  readonly vermelhos_passados: number
  readonly vermelhos_sem_data: number
  readonly oportunidades: number
  readonly alertas_passados: number
  readonly alertas_sem_data: number
  readonly alertas_7_dias: number
  readonly editais_com_alerta_7_dias: number
}

/** What the tiles showed a week before, as far as it is known. */
export type WeekAgo = Pick<
  KeyFigures,
  'em_andamento' | 'valor_futuras' | 'sessoes_7_dias' | 'requisitos_vermelhos' | 'alertas_7_dias'
>

export type Phase = {
  readonly fase: string
  readonly em_andamento: boolean
  readonly editais: number
  readonly futuras: number
  readonly passadas: number
  readonly sem_data: number
  readonly valor_futuras: number
  readonly sem_valor: number
  readonly valor_total: number
  readonly valor_mediano: number | null
  readonly idade_dias: number | null
  readonly na_fase_dias: number | null
  /** Notices that were seen to enter the phase, and those that were in it when the list was first read. */
  readonly medidos: number
  readonly censurados: number
}

/** Notices in progress in one state, or of one modality. */
export type Portion = Omit<BySession, 'valor_passadas' | 'valor_sem_data'> & {
  readonly nome: string
  readonly editais: number
  readonly valor: number
}

/** The buyer, state and number by which a reader knows a notice, and the usable address of its page: ours, or else PNCP's. */
export type Named = {
  readonly orgao: string | null
  readonly uf: string | null
  readonly numero: string | null
  /** In which notice the purchase counts, as readers write it, if it was published again. */
  readonly republicado: string | null
  readonly address: string | null
}

/** A notice in progress that needs a decision until a day, and which. */
export type Decision = Named & {
  readonly ate: Date
  readonly dias: number
  /** What to decide, in parts that `; ` separates. */
  readonly decisao: string
  readonly recomendacao: string | null
  readonly nivel: string | null
  readonly data_sessao_local: Date | null
  readonly objeto: string | null
  readonly valor: number | null
}

/** How many notices changed in a way, in the last day and in the last week. */
export type ChangeCount = { readonly mudanca: string; readonly um_dia: number; readonly sete_dias: number }

/** A change of a notice that is not new. */
export type NoticeChange = Named & {
  readonly observado_em: Date
  readonly observado_dia: Date
  readonly mudanca: string
  readonly de: string | null
  readonly para: string | null
  readonly impugnar_ate: Date | null
  readonly objeto: string | null
}

/** A week that begins on Monday. */
export type Week = {
  readonly semana: Date
  readonly novos: number
  readonly valor_novos: number
  readonly prontos: number
  readonly descartados: number
}

export type SessionDay = { readonly dia: Date; readonly sessoes: number }

export type ReportedSession = Named & {
  readonly data_sessao_local: Date
  readonly dias: number
  readonly modalidade: string | null
  readonly objeto: string | null
  readonly fase: string
  readonly participation_confirmed: boolean
  readonly valor: number | null
  readonly verdict_recommendation: string | null
  readonly vermelhos: number
  readonly amarelos: number
  readonly criticos: number
  readonly altos: number
  readonly ultimo_dia_impugnacao: Date | null
  readonly dias_impugnacao: number | null
  readonly regra_impugnacao: string | null
  readonly certeza_impugnacao: string | null
}

export type Demand = {
  readonly categoria: string | null
  readonly vermelhos: number
  readonly amarelos: number
  readonly verdes: number
  readonly sem_avaliacao: number
}

/** A red requirement, and the notices in which it is red and whose session has not begun. */
export type Blocker = {
  readonly titulo: string
  readonly categoria: string | null
  readonly editais: number
  readonly valor: number
  /** Notices in which nothing else is red. */
  readonly so_este: number
}

/** Notices in progress with a payment risk; null if nobody judged it. */
export type Exposure = {
  readonly risco: string | null
  readonly editais: number
  readonly confirmados: number
  readonly valor: number
  readonly valor_futuras: number
}

/** Notices decided against the verdict in a way, of past weeks or `por vir`; `perdido`: neither discarded nor confirmed. */
export type Against = {
  readonly caso: 'descartado' | 'perdido' | 'confirmado' | 'descartado por vir' | 'confirmado por vir'
  readonly editais: number
  readonly valor: number
}

/** A row of the card `disputa_por_parecer`; RP is price registration. */
export type ByVerdict = Readonly<{
  Parecer: string
  Editais: number
  'Valor estimado': number
  'Itens selecionados': number
  'Editais RP': number
  'Valor RP': number
  'Itens RP': number
}>

/** The sums that sessions tie up that have not begun. */
export type Stakes = {
  readonly na_sessao: number
  readonly na_assinatura: number
}

/** Alerts of a severity that are not opportunities: an opportunity is not a risk, whatever its severity. */
export type AlertCount = {
  readonly severidade: string | null
  readonly riscos: number
  readonly outros: number
}

export type RiskAlert = Named & {
  readonly prazo: Date
  readonly dias: number
  readonly certeza_prazo: string | null
  readonly oportunidade: boolean
  readonly severity: string | null
  readonly severidade: string | null
  readonly acao: string | null
  readonly titulo: string | null
  readonly descricao: string | null
  readonly fase: string
  readonly data_sessao_dia: Date | null
}

export type Buyer = {
  readonly orgao: string | null
  readonly uf: string | null
  readonly editais: number
  readonly em_andamento: number
  readonly parcela_descartada: number | null
  readonly valor: number
  /** Value of notices whose session has not begun. */
  readonly valor_futuras: number
  readonly risco_pagamento: string | null
  readonly risco_orgao: string | null
  readonly risco_precificacao: string | null
  readonly proxima_sessao: Date | null
}

export type Quarantined = {
  readonly kind: string
  readonly reason: string | null
  readonly registros: number
  readonly ultimo_em: Date
}

export type DriftCount = {
  readonly path: string
  readonly kind: string
  readonly vezes: number
  readonly ultimo_em: Date
}

/** A list's first rows, and how many there are. */
export type Bounded<T> = { readonly rows: readonly T[]; readonly total: number }

/** All figures of the report, as of an instant. */
export type Figures = {
  readonly now: Date
  /** The day of `now` in the time zone of the notices. */
  readonly today: Date
  readonly freshness: Freshness
  readonly key: KeyFigures
  readonly decisions: Readonly<Record<'today' | 'soon', Bounded<Decision>>>
  readonly changes: readonly ChangeCount[]
  /** Those of the last week, the latest first. */
  readonly news: Bounded<NoticeChange>
  /** The last reading of the whole list if that is old: changes are counted back from it. Null if they are counted back from `now`. */
  readonly changesUntil: Date | null
  readonly weeks: readonly Week[]
  readonly funnel: readonly Phase[]
  readonly states: readonly Portion[]
  readonly modalities: readonly Portion[]
  readonly sessionDays: readonly SessionDay[]
  readonly sessions: Bounded<ReportedSession>
  readonly demands: readonly Demand[]
  readonly blockers: readonly Blocker[]
  readonly verdicts: readonly ByVerdict[]
  readonly against: readonly Against[]
  readonly stakes: Stakes
  readonly exposures: readonly Exposure[]
  readonly alertCounts: readonly AlertCount[]
  readonly alerts: Bounded<RiskAlert>
  readonly buyers: Bounded<Buyer>
  readonly quarantine: Bounded<Quarantined>
  readonly drift: Bounded<DriftCount>
}
