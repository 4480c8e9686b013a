import { EXIT } from '#src/lib/errors.ts'
import { endWithReader } from '#src/lib/exit.ts'
import { runBench } from './frame/runner.ts'
import { killAll } from './processes/processes.ts'
import { attack } from './situations/attack.ts'
import { bi } from './situations/bi.ts'
import { hosts } from './situations/hosts.ts'
import { idle } from './situations/idle.ts'
import { lake } from './situations/lake.ts'
import { month } from './situations/month.ts'
import { serve } from './situations/serve.ts'
import { steady } from './situations/steady.ts'
import { sync } from './situations/sync.ts'

/** The first one is the default. */
const SITUATIONS = [sync, steady, idle, bi, lake, hosts, month, serve, attack]

endWithReader()
process.exitCode = await runBench(SITUATIONS, process.argv.slice(2), {
  print: text => void process.stdout.write(text),
  endAll: killAll,
})
// An interrupted one may still have timers and watches.
if (process.exitCode === EXIT.interrupted) process.exit()
