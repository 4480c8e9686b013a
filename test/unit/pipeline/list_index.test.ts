import { describe, expect, it } from 'vitest'
import { NOTICE } from '#schema/notice.ts'
import { makeShownPage, type ShownNotice } from '#src/core/pipeline/list_index.ts'
import { validatePage } from '#src/core/pipeline/validate.ts'
import { healthyNotice } from '#test/support/healthy.ts'

const HEALTHY = healthyNotice('n1')

/** A notice as a page with it alone shows it. */
function shown(notice: object, spaces?: number): ShownNotice {
  const list = { editais: [notice], count: 1, total: 1, limit: 200, offset: 0 }
  const body = Buffer.from(JSON.stringify(list, null, spaces))
  const page = validatePage(body)
  if (typeof page === 'string') throw new Error(page)
  const [first] = makeShownPage('', page).notices
  return first as ShownNotice
}

/** Another value that the contract allows. */
function another(name: string, value: unknown): unknown {
  if (typeof value === 'boolean') return !value
  if (typeof value === 'number') return value + 0.25
  if (name === 'status') return 'ready'
  return /^\d{4}-\d\d-\d\dT/.test(String(value)) ? '2026-12-24T00:00:00Z' : `${value}x`
}

describe('the fingerprint of a listed notice', () => {
  it('is of the id and every field of the contract', () => {
    const fingerprints = Object.keys(NOTICE).map(name => {
      const changed = { ...HEALTHY, [name]: another(name, HEALTHY[name]) }
      return shown(changed).join()
    })
    const all = [shown(HEALTHY).join(), ...fingerprints]
    expect(new Set(all).size).toBe(Object.keys(NOTICE).length + 1)
  })

  it('distinguishes an absent field from an empty one, and two forms of the same time', () => {
    const { numero: _, ...without } = HEALTHY
    const texts = [HEALTHY, without, { ...HEALTHY, numero: '' }, { ...HEALTHY, numero: null }]
    const times = { ...HEALTHY, updated_at: '2026-11-03T00:00:00.0Z' }
    expect(new Set([...texts, times].map(notice => shown(notice)[1])).size).toBe(5)
  })

  it('does not depend on the form, or on properties that the contract does not know', () => {
    const expected = shown(HEALTHY)
    expect(shown(HEALTHY, 2)).toEqual(expected)
    expect(shown({ ...HEALTHY, dias_restantes: 3 })).toEqual(expected)
    expect(shown({ novo: { a: [1] }, ...HEALTHY })).toEqual(expected)
  })

  it('of a record that cannot be used is of its bytes', () => {
    const { created_at: _, ...broken } = HEALTHY
    expect(shown(broken)).toEqual(shown(broken))
    expect(shown(broken)).not.toEqual(shown({ ...broken, eco: 1 }))
    expect(shown(broken)[0]).toBe('n1')
    expect(shown({ ...broken, id: 7 })[0]).toMatch(/^[\da-f]{64}$/)
  })
})
