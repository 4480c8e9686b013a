import { keepCompiled } from '#src/lib/compile_cache.js'
import { staySmall } from '#src/lib/memory.ts'

// Halves the start time of this process and of each run's; must be on before anything else is loaded.
keepCompiled()
// This process mostly waits, and runs have their own processes.
staySmall()
await import('./daemon.ts')
