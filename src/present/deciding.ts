import { fitInLine } from './text/format.ts'

/** What the report, its mails and the page *Hoje* show of notices that need a decision: today's apart. */

export const DECIDING = {
  today: { name: 'Hoje', when: 'dias_ate_decidir = 0' },
  soon: { name: 'Nos próximos dias', when: 'dias_ate_decidir > 0' },
} as const

const MAX_CHARACTERS = 60

/** Says what was recommended, and how deep the analysis is: `parecer Participar, análise Média`. */
export function describeStand(verdict: string | null, level: string | null): string {
  const [recommended, depth] = [verdict, level].map(text => fitInLine(text, MAX_CHARACTERS))
  const first = recommended ? `parecer ${recommended}` : 'sem parecer'
  return depth ? `${first}, análise ${depth}` : first
}
