import { inUtc } from './calendar.ts'
import type { Notice, Picture } from './picture.ts'
import { seen } from './spelling.ts'

/** What a card shows. */

export type Cell = string | number | Date | null
export type Row = Readonly<Record<string, Cell>>

/** The rows that a card must show for a picture. */
export type Card = (picture: Picture) => Row[]

export const WEEKDAYS = ['segunda', 'terça', 'quarta', 'quinta', 'sexta', 'sábado', 'domingo']

type Local = Temporal.PlainDate | Temporal.PlainDateTime

export const date = (local: Local | null): Date | null => local && inUtc(local)

/** A text in one line, cut after this many characters. */
export function brief(text: string | null, most: number): string | null {
  const characters = [...(seen([...(text ?? '')].slice(0, 8 * most).join('')) ?? '')]
  if (characters.length === 0) return null
  return `${characters.slice(0, most).join('')}${characters.length > most ? '…' : ''}`
}

/** A notice, in a list of its parts. */
export function noticeNameOf({ orgao, numero, countsIn }: Notice): string | null {
  const parts = [brief(orgao, 50), numero && `nº ${brief(numero, 20)}`, republishedIn(countsIn)]
  return parts.filter(Boolean).join(' · ') || null
}

/** An object, and where the purchase counts if it was published again. */
export function objectOf({ objeto, countsIn }: Pick<Notice, 'objeto' | 'countsIn'>): string | null {
  return [brief(objeto, 80), republishedIn(countsIn)].filter(Boolean).join(' · ') || null
}

export function republishedIn(counts: Pick<Notice, 'numero'> | null): string | null {
  if (counts === null) return null
  return counts.numero === null ? 'republicado sem número' : `republicado no nº ${counts.numero}`
}

/** How codes of the contract are written for readers; another code stays as it is. */
const LABELS: Readonly<Record<string, string>> = {
  participar: 'Participar',
  cautela: 'Cautela',
  nao_recomendado: 'Não recomendado',
  none: 'Nenhuma',
  simple: 'Simples',
  medium: 'Média',
  deep: 'Profunda',
  medio: 'médio',
  critico: 'crítico',
  risk: 'Risco',
  opportunity: 'Oportunidade',
  info: 'Informação',
  ok: 'sem problemas',
  failed: 'falhou',
  habilitacao_juridica: 'Habilitação jurídica',
  qualificacao_tecnica: 'Qualificação técnica',
  qualificacao_economica: 'Qualificação econômica',
  regularidade_fiscal: 'Regularidade fiscal',
  regularidade_trabalhista: 'Regularidade trabalhista',
  declaracoes: 'Declarações',
  amostras: 'Amostras',
  visita_tecnica: 'Visita técnica',
  certificacoes: 'Certificações',
  garantias: 'Garantias',
  programa_integridade: 'Programa de integridade',
  outros: 'Outros',
}

export function labelOf(code: string | null): string | null {
  return code === null ? null : (LABELS[code] ?? code)
}
