import { Command } from 'commander'
import { loadCompanyEnvironment } from '#config/companies.ts'
import { type Environment, readCommonSettings, readSettings } from '#config/settings.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { openLog } from '#src/operate/open_log.ts'
import { serveOnStdio } from '#src/server/mcp/stdio.ts'
import { findKnownCompany } from './known_company.ts'

export function createMcpCommand(environment: Environment): Command {
  return new Command('mcp')
    .description(
      'Serve the latest snapshot to an AI agent over MCP, on standard input and output; see docs/operating/mcp.md.',
    )
    .option('--company <slug>', 'company to serve, instead of COMPANY')
    .action(async ({ company }: { company?: string }) => {
      const { dataDir } = readCommonSettings(environment)
      if (company !== undefined) await findKnownCompany(environment, dataDir, company)
      const settings = readSettings(await loadCompanyEnvironment(environment, company))
      const log = await openLog(settings.logLevel, { company: settings.company })
      const { lake } = companyPaths(settings.dataDir, settings.company)
      serveOnStdio({ company: settings.company, lake, log })
    })
}
