import type { CommandTools } from '#src/extras/extra.ts'
import { bringUpToDate } from '#src/operate/maintain.ts'
import { createLocalContext, holdCompany } from '#src/operate/open.ts'
import { assertHasData } from './known_company.ts'
import { withDisplay } from './progress.ts'
import { listLakes } from './snapshot_sql.ts'

/** The functions that the command line passes to the commands of extras. */
export const EXTRA_TOOLS: CommandTools = {
  withCompany: async (settings, work) =>
    await withDisplay(settings, 'Stopping', async ({ display, signal }) =>
      work(createLocalContext(settings, display, signal), display),
    ),
  holdCompany,
  bringUpToDate,
  assertHasData,
  listLakes,
}
