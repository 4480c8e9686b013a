import { join, resolve } from 'node:path'
import { Command } from 'commander'
import { loadCompanyEnvironment } from '#config/companies.ts'
import { type Environment, readMailSettings, readSettings, type Settings } from '#config/settings.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { PRIVATE_FILE } from '#src/lib/access.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { writeReport } from './page.ts'

type Options = { company?: string; output?: string; send?: true; weekly?: true }

export function createReportCommand(environment: Environment): Command {
  return new Command('report')
    .description('Write the latest snapshot as a report for people: one HTML file, in Portuguese.')
    .option('--company <slug>', 'company to report on, instead of COMPANY')
    .option('--output <file>', "where to write it, instead of report.html in the company's directory")
    .option('--send', 'mail it to REPORT_TO instead, with what to decide and what changed in the last day')
    .option('--weekly', 'with --send: what changed in the last seven days. Without: print that mail')
    .addHelpText('after', '\nMails need SMTP_URL and REPORT_TO: see docs/operating/settings.md.')
    .action(async (options: Options) => {
      const own = await loadCompanyEnvironment(environment, options.company)
      const settings = readSettings(own)
      const { root, lake } = companyPaths(settings.dataDir, settings.company)
      if (options.send || options.weekly) return await mail(options, own, lake, settings)
      const output = options.output ? resolve(options.output) : join(root, 'report.html')
      // Access to a file that the operator named is the operator's choice.
      const mode = options.output ? {} : { mode: PRIVATE_FILE }
      const { bytes } = await writeReport(lake, output, {
        now: new Date(),
        pagesUrl: settings.pagesUrl,
        ...mode,
      })
      process.stdout.write(`Wrote ${output} (${Math.ceil(bytes / 1000)} kB)\n`)
    })
}

async function mail(
  { send, weekly, output }: Options,
  environment: Environment,
  lake: string,
  { pagesUrl }: Settings,
): Promise<void> {
  if (output !== undefined)
    throw new FatalError('--output writes a file: it goes neither with --send nor with --weekly.', EXIT.usage)
  const { composeMail, sendMail } = await import('./mail.ts')
  const settings = send ? readMailSettings(environment) : null
  const now = new Date()
  const composed = await composeMail(lake, weekly ? 'week' : 'day', { now, pagesUrl })
  if (settings === null) {
    process.stdout.write(`${composed.subject}\n\n${composed.text}`)
    process.stderr.write('Not sent: add --send.\n')
    return
  }
  await sendMail(composed, settings, `${composed.fileName} ${now.toISOString()}`)
  process.stdout.write(`Mailed to ${settings.to.join(', ')}: ${composed.subject}\n`)
}
