import { down, known, median, sorted } from './arithmetic.ts'
import { brief, type Card, date } from './card.ts'
import type { Notice, Picture } from './picture.ts'
import { mostFrequent, plain, seen } from './spelling.ts'

/** The figures of prices: what comparable items cost, and who estimates above others. */

const UNITS: Readonly<Record<string, string>> = { UND: 'UN', UNID: 'UN', UNIDADE: 'UN', CAIXA: 'CX' }

/** Things with the same description, of two words or more, and the same unit, in three notices or more. */
function priceBandsOf({ items }: Picture) {
  const priced = items.flatMap(({ noticeId, followedOn, description, unit, isService, price }) => {
    const text = seen(description)
    if (price === null || text === null || seen(unit)?.toUpperCase() === 'UST') return []
    if (isService || text.split(' ').length < 2) return []
    const spelled = plain(seen(unit) ?? '')
      .toUpperCase()
      .split(/[^\p{L}\p{N}]+/u)
      .join(' ')
      .trim()
    return [{ noticeId, followedOn, text, unit: (UNITS[spelled] ?? spelled) || null, price }]
  })
  const groups = [...Map.groupBy(priced, ({ text, unit }) => `${text.toLowerCase()}\n${unit}`).values()]
  return sorted(
    groups
      .map(those => ({
        description: mostFrequent(those.map(({ text }) => text)),
        unit: those[0]?.unit ?? null,
        members: those,
        items: those.length,
        notices: new Set(those.map(({ noticeId }) => noticeId)).size,
        p10: quantile(those, 0.1),
        median: median(those.map(({ price }) => price)),
        p90: quantile(those, 0.9),
        days: sorted(known(those.map(({ followedOn }) => followedOn)), day => day.toString()),
      }))
      .filter(({ notices, p10, p90 }) => notices >= 3 && p90 > 1 && p90 <= 5 * p10),
    down(({ notices }) => notices),
    down(({ items }) => items),
    ({ description }) => description,
    ({ unit }) => unit,
  )
}

/** The prices of live notices beside the median of the same item, by buyer. */
function buyerPricesOf(picture: Picture) {
  const live = new Map(picture.live.map(notice => [notice.id, notice]))
  const compared = priceBandsOf(picture).flatMap(({ members, median }) =>
    members.flatMap(({ noticeId, price }) => {
      const notice = live.get(noticeId)
      return notice && median !== null ? [{ notice, relative: price / median }] : []
    }),
  )
  const buyers = Map.groupBy(compared, ({ notice: { cnpj, orgao } }) => cnpj ?? orgao ?? 'não informado')
  const rows = [...buyers].map(([key, those]) => {
    const notices = sorted(
      [...new Set(those.map(({ notice }) => notice))],
      ({ updatedAt }) => -updatedAt.getTime(),
    )
    const latest = (what: (notice: Notice) => string | null) => known(notices.map(what))[0] ?? null
    const all = those.map(({ relative }) => relative)
    return {
      ...{ key, notices, all, middle: (median(all) ?? 1) - 1 },
      ...{ orgao: latest(({ orgao }) => orgao), uf: latest(({ uf }) => uf) },
    }
  })
  return sorted(
    rows,
    down(({ middle }) => middle),
    down(({ all }) => all.length),
    ({ key }) => key,
  )
}

/** Between the two nearest values, in proportion. */
function quantile(those: readonly { readonly price: number }[], share: number): number {
  const prices = those.map(({ price }) => price).sort((a, b) => a - b)
  const place = (prices.length - 1) * share
  const [low = 0, high = 0] = [prices[Math.floor(place)], prices[Math.ceil(place)]]
  return low + (high - low) * (place - Math.floor(place))
}

export const priceCards: Readonly<Record<string, Card>> = {
  faixas_de_preco: picture =>
    priceBandsOf(picture)
      .slice(0, 100)
      .map(({ description, unit, items, notices, p10, median, p90, days }) => ({
        Item: brief(description, 120),
        Unidade: brief(unit, 16),
        Editais: notices,
        Itens: items,
        '10% até': p10,
        'Metade até': median,
        '90% até': p90,
        Desde: date(days[0] ?? null),
        Até: date(days.at(-1) ?? null),
      })),

  precos_por_orgao: picture =>
    buyerPricesOf(picture)
      .filter(({ all }) => all.length >= 5)
      .slice(0, 50)
      .map(({ orgao, uf, notices, all, middle }) => ({
        Órgão: brief(orgao ?? 'não informado', 60),
        UF: uf,
        Editais: notices.length,
        'Itens comparáveis': all.length,
        // Halves away from zero, as in SQL.
        'Diferença (%)': Math.sign(middle) * Math.round(100 * Math.abs(middle)) || 0,
        'Acima de 10%': all.filter(one => one > 1.1).length,
        'Abaixo de 10%': all.filter(one => one < 0.9).length,
      })),
}
