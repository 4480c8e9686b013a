import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/**
 * Loaded before a command (`node --import`): simulates a full disk for files whose path ends with `TEST_FULL_DISK`, by
 * writing to /dev/full instead. Only Linux has that device.
 */
const ending = process.env.TEST_FULL_DISK ?? ''
const actual = (path: fs.PathLike) => (String(path).endsWith(ending) ? '/dev/full' : path)

const { open } = fs
fs.open = ((path: fs.PathLike, ...rest: [never]) => open(actual(path), ...writing(path, rest))) as typeof open
const { open: openAsync } = fs.promises
fs.promises.open = (path, ...rest) => openAsync(actual(path), ...(writing(path, rest) as []))
syncBuiltinESMExports()

/** The device exists, so it cannot be created exclusively. */
function writing<T extends unknown[]>(path: fs.PathLike, [flags, ...rest]: T): T {
  return [actual(path) === path ? flags : 'w', ...rest] as T
}
