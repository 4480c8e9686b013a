import { keepCompiled } from '#src/lib/compile_cache.js'

// JavaScript, like src/cli/main.js: a call waits for this process to start.
keepCompiled()
const { answerOrder } = await import('./reader.ts')
answerOrder()
