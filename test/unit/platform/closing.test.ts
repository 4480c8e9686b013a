import { expect, test } from 'vitest'
import { closing } from '#src/lib/closing.ts'

test('what was opened is closed at the end of its block, also after an error, and waited for if it takes time', async () => {
  const events: string[] = []
  const open = (name: string) => ({ close: async () => events.push(`${name} closed`) })
  const work = async () => {
    using _ = closing({ close: () => events.push('at once') })
    await using __ = closing(open('later'))
    throw new Error('failed')
  }
  await expect(work()).rejects.toThrow('failed')
  expect(events).toEqual(['later closed', 'at once'])
})
