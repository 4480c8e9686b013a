import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/**
 * Loaded before a command (`node --import`): the disk is full for a file whose path ends as `TEST_FULL_DISK` says. What
 * is written to it goes to /dev/full, which only Linux has.
 */
const ending = process.env.TEST_FULL_DISK ?? ''
const actual = (path: fs.PathLike) => (String(path).endsWith(ending) ? '/dev/full' : path)

const { open } = fs
fs.open = ((path: fs.PathLike, ...rest: [never]) => open(actual(path), ...writing(path, rest))) as typeof open
const { open: openAsync } = fs.promises
fs.promises.open = (path, ...rest) => openAsync(actual(path), ...(writing(path, rest) as []))
syncBuiltinESMExports()

/** The device is there, so it cannot be made. */
function writing<T extends unknown[]>(path: fs.PathLike, [flags, ...rest]: T): T {
  return [actual(path) === path ? flags : 'w', ...rest] as T
}
