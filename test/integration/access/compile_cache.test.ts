import { execFile } from 'node:child_process'
import { chmod, mkdir, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { type Environment, temporaryDirectory } from '#test/support/project.ts'

const MODULE = join(import.meta.dirname, '../../../src/lib/compile_cache.js')
const SCRIPT = `import { keepCompiled } from ${JSON.stringify(MODULE)}
import { getCompileCacheDir } from 'node:module'
keepCompiled()
console.log(getCompileCacheDir() ?? 'none')`

/** Where a command would keep compiled modules. */
async function cacheWith(environment: Environment): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', SCRIPT], {
    env: environment,
  })
  return stdout.trim()
}

test('compiled modules are kept in a directory of this user alone, or not at all', async () => {
  const home = await temporaryDirectory()
  const directory = join(home, '.cache/editais-sync')
  expect(await cacheWith({ HOME: home })).toMatch(new RegExp(`^${directory}/`))
  expect((await stat(directory)).mode & 0o777).toBe(0o700)

  await chmod(directory, 0o777)
  expect(await cacheWith({ HOME: home })).toBe('none')

  const [other, linked] = [await temporaryDirectory(), join(home, 'linked')]
  await mkdir(linked)
  await symlink(other, join(linked, 'editais-sync'))
  expect(await cacheWith({ HOME: home, XDG_CACHE_HOME: linked })).toBe('none')
  expect(await cacheWith({ HOME: MODULE })).toBe('none')
  expect(await cacheWith({ HOME: home, NODE_COMPILE_CACHE: other })).toMatch(new RegExp(`^${other}/`))
})
