import { Command } from 'commander'
import { EXIT, getMessage } from '#src/lib/errors.ts'
import type { Mutant } from './mutants/mutant.ts'
import { tryMutant } from './mutants/try.ts'
import { MUTANTS } from './mutants.ts'

const program = new Command('npm run mutants --')
  .description(
    'Makes known mistakes, one after another, in a copy of the project, and names the unit test that fails.',
  )
  .argument('[names...]', 'only these')
  .showHelpAfterError('(add --help for the options)')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT.ok : EXIT.usage))
  .parse()

const names = program.args
const unknown = names.find(name => !MUTANTS.some(mutant => mutant.name === name))
if (unknown)
  program.error(`There is no mutant ${unknown}. There are ${MUTANTS.map(({ name }) => name).join(', ')}.`)

const alone = await tryMutant(null)
if (alone !== null) program.error(`The unit tests fail without any mutant: ${alone.by}`)

const chosen = MUTANTS.filter(({ name }) => names.length === 0 || names.includes(name))
let missed = 0
for (const mutant of chosen) {
  const { well, text } = await outcomeOf(mutant)
  if (!well) missed += 1
  process.stdout.write(`${mutant.file} ${mutant.name}: ${text}\n`)
}
process.stdout.write(`${chosen.length - missed} of ${chosen.length} mutants caught.\n`)
process.exitCode = missed === 0 ? EXIT.ok : EXIT.failed

async function outcomeOf(mutant: Mutant): Promise<{ well: boolean; text: string }> {
  try {
    const caught = await tryMutant(mutant)
    if (caught === null) return { well: false, text: `MISSED (${mutant.reason})` }
    const others = caught.others > 0 ? ` (and ${caught.others} more)` : ''
    return { well: true, text: `caught by "${caught.by}"${others}` }
  } catch (error) {
    return { well: false, text: `NOT TRIED: ${getMessage(error)}` }
  }
}
