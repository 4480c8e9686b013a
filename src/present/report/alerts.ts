import { day, formatPlural, inDays, line, NONE, number } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { stackedChart } from './charts.ts'
import { type Figures, LIMITS, type RiskAlert } from './figures.ts'
import {
  badge,
  capital,
  MAX_CODE,
  MAX_NAME,
  MAX_STACKS,
  nothing,
  noticeLink,
  TO_CONFIRM,
} from './section_parts.ts'
import { more, table } from './table.ts'

/** The alerts by severity, and those with a deadline. */

const MAX_DESCRIPTION = 140
const SEVERITY_BADGES: Readonly<Record<string, string>> = { critical: 'red', high: 'yellow' }

export function renderAlerts({ alerts: { rows, total }, alertCounts, key }: Figures): Html {
  const all = alertCounts.reduce((sum, { riscos, outros }) => sum + riscos + outros, key.oportunidades)
  if (all === 0) return nothing('Nenhum alerta jurídico nos editais em andamento.')
  const layers = [
    { name: 'Riscos', colour: 'red' },
    { name: 'Informações e outros', colour: 'unknown' },
  ] as const
  const stacks = alertCounts.map(({ severidade, riscos, outros }) => ({
    label: capital(line(severidade, MAX_CODE) ?? 'sem severidade'),
    values: [riscos, outros],
  }))
  const summary = `Alertas por severidade, sem as oportunidades: ${stacks.map(({ label, values }) => `${label} ${number(values.reduce((a, b) => a + b))}`).join(', ')}.`
  return html`<p class="lead">${formatPlural(all, 'alerta', 'alertas')} nos editais em andamento, ${number(key.oportunidades)} deles ${key.oportunidades === 1 ? 'oportunidade' : 'oportunidades'}; <b>${number(key.alertas_7_dias)}</b> com prazo de impugnação ou esclarecimento nos próximos ${LIMITS.soonDays} dias.</p>
${stacks.length > 0 && stackedChart(summary, layers, stacks.slice(0, MAX_STACKS))}
${
  rows.length === 0
    ? nothing('Nenhum prazo de impugnação ou esclarecimento em aberto.')
    : table({
        caption: `Prazos de impugnação e esclarecimento em aberto${total > rows.length ? `: os primeiros ${rows.length}` : ''}`,
        columns: [
          {
            head: 'Prazo',
            kind: 'date',
            cell: alert =>
              html`${day(alert.prazo)} <small>${inDays(alert.dias)}${alert.certeza_prazo === TO_CONFIRM && ` · ${TO_CONFIRM}`}</small>`,
          },
          { head: 'Alerta', kind: 'wide', cell: alertText },
          { head: 'Edital', kind: 'wide', cell: noticeLink },
          { head: 'Fase', cell: alert => line(alert.fase, MAX_CODE) },
          { head: 'Sessão', kind: 'date', cell: alert => day(alert.data_sessao_dia) },
        ],
        rows,
      })
}
${more(total - rows.length, 'alerta com prazo em aberto', 'alertas com prazo em aberto')}
<p class="note">Prazo: o que o edital diz ou, na falta, o da lei que ele nomeia (Lei 14.133/2021, art. 164: terceiro dia útil antes da sessão), com feriados nacionais e do estado; na dúvida, o dia mais cedo, a confirmar. Um feriado municipal antecipa o prazo: confira sempre o edital.</p>`
}

function severity(alert: RiskAlert): Html {
  if (alert.oportunidade) return badge('green', 'oportunidade')
  return badge(SEVERITY_BADGES[alert.severity ?? ''], line(alert.severidade, MAX_CODE) ?? NONE)
}

function alertText(alert: RiskAlert): Html {
  const text = line(alert.descricao, MAX_DESCRIPTION)
  return html`${severity(alert)} <b>${line(alert.acao, MAX_CODE)}</b>: ${line(alert.titulo, MAX_NAME) ?? 'sem título'}${text && html` <small>${text}</small>`}`
}
