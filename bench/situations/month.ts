import { count, situation } from '../frame/situation.ts'
import { figuresOf } from '../month/figures.ts'
import { measureMonth } from '../month/measure.ts'

/** Maximum number of complaints printed; more would only repeat these. */
const COMPLAINTS_SHOWN = 10

export const month = situation({
  name: 'month',
  about:
    'A company that changes for a simulated month: one process makes a run for each hour. Reports its memory and its disk usage.',
  options: {
    notices: count('size of the company at the start', 5000),
    hours: count('simulated hours, with one run in each', 720),
  },
  needsProc: true,
  async measure(bench, options) {
    const measured = await measureMonth(bench, options)
    const all = [measured.first, ...measured.hours, measured.full]
    for (const complaint of all.flatMap(({ complaints }) => complaints).slice(0, COMPLAINTS_SHOWN))
      bench.note(complaint)
    bench.record('measured', measured)
    return figuresOf(measured)
  },
})
