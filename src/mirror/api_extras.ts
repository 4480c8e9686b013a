import { UNAVAILABLE } from '#schema/unavailable.ts'
import type { Extras } from '#src/service/description.ts'

const text = (description: string) => ({ description, schema: { type: 'string' } })
const error = (description: string, headers: object = {}) => ({
  description,
  headers,
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
})
const RETRY_AFTER = { 'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer' } } }

/** What the mirror answers beside what the contract says. */
export const MIRROR_EXTRAS: Extras = {
  localSessions: true,
  headers: {
    ETag: text('Names this version of the answer, for `If-None-Match`.'),
    'X-Data-As-Of': {
      description: 'When the snapshot was published out of which this was answered.',
      schema: { type: 'string', format: 'date-time' },
    },
    'X-Request-Id': text('As given, or made up; it is in the log.'),
  },
  responses: {
    '304': { description: 'It is still what `If-None-Match` names.' },
    '414': error('The URL is longer than 4,096 characters.'),
    '429': error('This key asked more often than it may.', RETRY_AFTER),
    '503': error(
      `There is no snapshot of this company yet (\`error\` is \`unavailable\`); or this one analysis is not there: \`${UNAVAILABLE.now}\`, it may come with the next sync; \`${UNAVAILABLE.excluded}\`, analyses of this phase are not fetched here. Others are answered meanwhile.`,
      RETRY_AFTER,
    ),
  },
}
