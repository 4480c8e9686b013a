import { z } from 'zod'
import { dateTime, noticeId, optional } from './fields.ts'

/** docs/contract.md#phases-and-levels: the phases a notice goes through in the company's funnel. */
export const STATUSES = ['screening', 'analysis', 'pricing', 'ready', 'discarded', 'expired'] as const

/**
 * docs/contract.md#notice: a notice as one company tracks it, exactly as documented. `src/pipeline/validate.ts`
 * decides what happens to a document that differs.
 */
export const notice = z.strictObject({
  id: noticeId,
  pncp_id: z.string(),
  orgao: optional(z.string()),
  objeto: optional(z.string()),
  numero: optional(z.string()),
  modalidade: optional(z.string()),
  uf: optional(z.string()),
  valor_estimado: optional(z.number()),
  data_sessao: optional(dateTime),
  pncp_url: optional(z.string()),
  status: z.enum(STATUSES),
  participation_confirmed: z.boolean(),
  discard_reason: optional(z.string()),
  committed_at: optional(dateTime),
  created_at: dateTime,
  updated_at: dateTime,
})

export type Notice = z.infer<typeof notice>

/** docs/contract.md#page: the envelope of a list response; each element is validated separately. */
export const noticePage = z.looseObject({
  editais: z.array(z.unknown()),
  count: z.int().min(0),
  total: z.int().min(0),
  limit: z.int(),
  offset: z.int(),
})

/** docs/contract.md#limits: bounds of the list endpoint. */
export const LIST_LIMIT = { min: 1, max: 200, default: 50 } as const
