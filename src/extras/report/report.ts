import { readMailSettings, readSettings } from '#config/settings.ts'
import type { Extra } from '#src/extras/extra.ts'

/**
 * The latest snapshot for people: one HTML page in Portuguese, and the same by mail each week. It reads the lake, and writes
 * only the file that somebody asks for. Its charts are loaded when it is used, so that no run pays for them.
 */
export const report: Extra = {
  report: {
    render: async (lake, options) => await (await import('./page.ts')).renderLatestReport(lake, options),
    async mail(lake, { environment, now, id }) {
      const { composeMail, sendMail } = await import('./mail.ts')
      const settings = readMailSettings(environment)
      const { pagesUrl } = readSettings(environment)
      const mail = await composeMail(lake, 'week', { now, pagesUrl })
      await sendMail(mail, settings, `${id} ${mail.fileName}`)
      return { recipients: settings.to.length, server: settings.host }
    },
  },
  commands: { report: async environment => (await import('./command.ts')).createReportCommand(environment) },
}
