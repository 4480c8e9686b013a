import { join, resolve } from 'node:path'
import { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { PRIVATE_FILE } from '#src/platform/access.ts'
import { writeReport } from '#src/present/report/report.ts'
import { companyPaths } from '#src/store/company.ts'

export function reportCommand(environment: Environment): Command {
  return new Command('report')
    .description('Write the latest snapshot as a report for people: one HTML file, in Portuguese.')
    .option('--company <slug>', 'company to report on, instead of COMPANY')
    .option('--output <file>', "where to write it, instead of report.html in the company's directory")
    .action(async (options: { company?: string; output?: string }) => {
      const own = await environmentOf(environment, options.company)
      const settings = readSettings(own)
      const { root, lake } = companyPaths(settings.dataDir, settings.company)
      const output = options.output ? resolve(options.output) : join(root, 'report.html')
      // Access to a file that the operator named is the operator's choice.
      const mode = options.output ? {} : { mode: PRIVATE_FILE }
      const { bytes } = await writeReport(lake, output, { now: new Date(), ...mode })
      process.stdout.write(`Wrote ${output} (${Math.ceil(bytes / 1000)} kB)\n`)
    })
}
