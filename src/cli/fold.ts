import type { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { describeFolded, fold } from '#src/operate/fold.ts'
import { holdingCompany, localContext } from '#src/operate/open.ts'
import { assertHasData } from './has_data.ts'
import { type CompanyOptions, companyCommand } from './options.ts'
import { withDisplay } from './progress.ts'
import { publishAfter } from './publish_after.ts'

export function foldCommand(environment: Environment): Command {
  const description =
    'Write the log on this disk anew, with fewer and smaller segments that give the same tables; the old one is kept beside it.'
  return companyCommand('fold', description).action(async ({ company, json }: CompanyOptions) => {
    const settings = readSettings(await environmentOf(environment, company))
    const { folded, after } = await withDisplay(settings, 'Stopping', async ({ display, signal, log }) => {
      const context = localContext(settings, display, signal)
      await assertHasData(context)
      const result = await holdingCompany(context, display, { what: 'log fold' }, () => fold(context))
      return {
        folded: result.folded,
        after: async () => void (result.published && (await publishAfter(context, log, 'log fold'))),
      }
    })
    process.stdout.write(json ? `${JSON.stringify(folded)}\n` : describeFolded(folded))
    await after()
  })
}
