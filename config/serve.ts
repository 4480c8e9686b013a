import { z } from 'zod'
import { type Environment, parseSettings, wholeNumber } from './settings.ts'

const origins = z.string().transform((text, context) => {
  const list = text.split(',').map(part => part.trim())
  const wrong = list.find(one => one !== '*' && (!URL.canParse(one) || new URL(one).origin !== one))
  if (wrong === undefined) return list
  const message = 'must be origins such as https://erp.example.com, with commas between them, or *'
  context.addIssue({ code: 'custom', message })
  return z.NEVER
})

/** Where and how the worker answers over HTTP. */
export const serveShape = {
  HTTP_HOST: z.string().default('127.0.0.1'),
  HTTP_PORT: wholeNumber(0, 65_535).default(8080),
  SERVE_MAX_RPS: wholeNumber(0, 100_000).default(0),
  SERVE_CORS_ORIGINS: origins.default([]),
}

const schema = z.object(serveShape)

export type ServeSettings = {
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  /** Requests per second of each API key; null for no limit. */
  readonly maxRps: number | null
  /** Pages of these origins may ask from a browser; empty for none. */
  readonly corsOrigins: readonly string[]
}

/** Settings of `npm run serve`. Throws FatalError (usage) naming every wrong variable. */
export function readServeSettings(environment: Environment): ServeSettings {
  return serveSettings(parseSettings(schema, environment))
}

export function serveSettings(values: z.output<typeof schema>): ServeSettings {
  return {
    host: values.HTTP_HOST,
    port: values.HTTP_PORT,
    maxRps: values.SERVE_MAX_RPS || null,
    corsOrigins: values.SERVE_CORS_ORIGINS,
  }
}
