import { expect, it } from 'vitest'
import { isPublicAddress, mayBePublic } from '#src/lib/http/public_lookup.ts'

it.each(['8.8.8.8', '200.160.2.3', '2001:4860:4860::8888', '2804:14c::1', '::ffff:8.8.8.8'])(
  '%s is on the internet',
  address => {
    expect(isPublicAddress(address)).toBe(true)
  },
)

it.each([
  ...[
    '127.0.0.1',
    '10.1.2.3',
    '172.16.0.1',
    '192.168.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '224.0.0.1',
  ],
  // Serves settings to virtual machines in Azure.
  ...['168.63.129.16', '::ffff:168.63.129.16'],
  ...['::', '::1', '::ffff:127.0.0.1', '::7f00:1', 'fc00::1', 'fe80::1', 'fec0::1', 'ff02::1', '2001:db8::1'],
  // IPv6 that carries an IPv4 address, and what is assigned to nobody.
  ...['64:ff9b::a00:1', '64:ff9b:1::a00:1', '2002:a00:1::', '2001::1', '1::', '10::1', '4000::1', '8000::1'],
  ...['100::1', 'not an address'],
])('%s is not', address => {
  expect(isPublicAddress(address)).toBe(false)
})

it('a name may be public until it is resolved', () => {
  expect(mayBePublic('erp.example.com')).toBe(true)
  expect(mayBePublic('[::1]')).toBe(false)
})
