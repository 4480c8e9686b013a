import { spawnSync } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { generate } from './generate.ts'

const TSC = join(import.meta.dirname, 'node_modules/typescript/bin/tsc')

// Makes `dist/`, what npm publishes: JavaScript modules and their types.
await generate()
await rm(join(import.meta.dirname, 'dist'), { recursive: true, force: true })
const { status } = spawnSync(process.execPath, [TSC, '--project', import.meta.dirname], { stdio: 'inherit' })
process.exitCode = status ?? 1
