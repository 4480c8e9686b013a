import type { Extra } from '#src/extras/extra.ts'

/** The latest snapshot as a file to take away: a DuckDB file, a workbook, CSV. It reads the lake, and writes that file alone. */
export const exports: Extra = {
  commands: {
    export: async (environment, tools) =>
      (await import('./command.ts')).createExportCommand(environment, tools),
  },
}
