import { Command, CommanderError } from 'commander'
import { type Environment, loadEnvironment } from '#config/settings.ts'
import { EXIT, FatalError, messageOf, systemCode } from '#src/errors.ts'

import { demoCommand } from './demo.ts'
import { maintainCommands } from './maintain.ts'
import { queryCommand } from './query.ts'

import { sandboxCommand } from './sandbox.ts'
import { statusCommand } from './status.ts'
import { syncCommand } from './sync.ts'

function createProgram(environment: Environment): Command {
  const program = new Command('npm run')
    .description('Mirrors public tender notices and their analyses into DuckDB tables and Parquet snapshots.')
    .addHelpText('after', '\nOptions go after two dashes: npm run sync -- --help')
  const commands = [
    syncCommand(environment),
    statusCommand(environment),
    queryCommand(environment),
    ...maintainCommands(environment),
    sandboxCommand(),
    demoCommand(environment),
  ]
  for (const command of commands) program.addCommand(command.usage(`-- ${command.usage()}`))
  for (const command of [program, ...commands]) {
    command.exitOverride().showHelpAfterError('(add --help for the options)').showSuggestionAfterError()
  }
  return program
}

/** One clear sentence for whoever reads stderr; never a stack trace. */
function explain(error: unknown): { message: string; exitCode: number } {
  if (error instanceof FatalError) return { message: error.message, exitCode: error.exitCode }
  const text = messageOf(error)
  if (systemCode(error) === 'ENOSPC' || /No space left on device/.test(text)) {
    return {
      message:
        'The disk is full. What was loaded before is safe. Free some space (old snapshots go with a shorter SNAPSHOT_KEEP), then run again.',
      exitCode: EXIT.failed,
    }
  }
  if (['EACCES', 'EROFS', 'EPERM'].includes(systemCode(error) ?? '')) {
    return { message: `${text}. Check that this user may write DATA_DIR.`, exitCode: EXIT.usage }
  }
  return {
    message: `Unexpected: ${text}. This is a fault of the program; the data is as the last run left it.`,
    exitCode: EXIT.failed,
  }
}

try {
  await createProgram(loadEnvironment()).parseAsync()
} catch (error) {
  if (error instanceof CommanderError) {
    // Commander has said what it is about.
    process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage
  } else {
    const { message, exitCode } = explain(error)
    process.stderr.write(`${message}\n`)
    process.exitCode = exitCode
  }
}
