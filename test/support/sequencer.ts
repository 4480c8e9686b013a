import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files of daemons first: they mostly wait, and the others find cores to themselves meanwhile. */
export default class DaemonsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const waits = ({ moduleId }: TestSpecification) => moduleId.includes('/test/daemon/')
    return [...sorted.filter(waits), ...sorted.filter(file => !waits(file))]
  }
}
