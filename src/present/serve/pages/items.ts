import { NONE } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { nameItemKind } from '#src/present/text/names.ts'
import { chip } from './layout.ts'
import {
  MAX_ROWS,
  MAX_TEXT,
  paragraphs,
  partOf,
  quantity,
  rest,
  type ShownDocument,
  showOrdinal,
  showText,
  unitPrice,
} from './show.ts'

/** Returns a table that can be wider than the page: it scrolls by itself, also with the keyboard. */
export function renderItems(all: readonly unknown[]): Html {
  const parts = all.slice(0, MAX_ROWS).map(partOf)
  const hasLots = parts.some(({ numero_lote }) => typeof numero_lote === 'number')
  const rows = parts.map(
    part =>
      html`<tr><td>${showOrdinal(part.numero_item)}</td>${hasLots && html`<td>${showOrdinal(part.numero_lote)}</td>`}<td class="text">${paragraphs(part, 'descricao', MAX_TEXT) ?? NONE}${figures(part)}${about(part)}</td>${amountCells(part)}</tr>\n`,
  )
  return html`<div class="scroll card" role="region" aria-labelledby="items" tabindex="0"><table>
<thead><tr><th scope="col">Item</th>${hasLots && html`<th scope="col">Lote</th>`}<th scope="col">Descrição</th><th scope="col" class="number wide">Quantidade</th><th scope="col" class="wide">Unidade</th><th scope="col" class="number wide">Valor unitário</th><th scope="col" class="number wide">Valor total</th></tr></thead>
<tbody>${rows}</tbody></table></div>${rest(all.length)}`
}

function amountCells(part: ShownDocument): Html {
  return html`<td class="number wide">${quantity(part.quantidade)}</td><td class="wide">${showText(part, 'unidade_medida', 40) ?? NONE}</td><td class="number wide">${unitPrice(part.valor_unitario_estimado)}</td><td class="number wide">${unitPrice(part.valor_total)}</td>`
}

/** Returns what those columns have, on a phone: it has no room for them. */
function figures(part: ShownDocument): Html {
  const [unit, total] = [part.valor_unitario_estimado, part.valor_total].map(unitPrice)
  return html`<p class="phone">${quantity(part.quantidade)} ${showText(part, 'unidade_medida', 40)} × ${unit}; total: ${total}</p>`
}

/** Returns what the columns do not have. */
function about(part: ShownDocument): Html {
  const { ai_selected: isSelected, ai_confidence: confidence } = part
  const known = [
    nameItemKind(part.material_ou_servico),
    showText(part, 'criterio_julgamento_nome', 80),
    typeof confidence === 'number' ? `confiança da seleção: ${quantity(confidence)}` : null,
  ].filter(one => one !== null)
  const selected =
    isSelected === true
      ? chip('Selecionado', 'green')
      : isSelected === false && chip('Não selecionado', 'plain')
  const reason = paragraphs(part, 'ai_reasoning', MAX_TEXT)
  return html`<p class="line muted">${selected}<span>${known.join(' · ')}</span></p>${reason !== null && html`<p class="muted">${reason}</p>`}`
}
