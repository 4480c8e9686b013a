import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Runs the longest files first. Those of daemons mostly wait, so the others fill the gaps. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification) =>
      /\/test\/(system\/|integration\/snapshot_readers)/.test(moduleId)
    return [...sorted.filter(isLong), ...sorted.filter(file => !isLong(file))]
  }
}
