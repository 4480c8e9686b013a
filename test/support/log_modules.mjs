import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

/** Loaded before a command (`node --import`): writes the URL of each module that the command loads, a line each. */
registerHooks({
  load(url, context, next) {
    appendFileSync(process.env.TEST_MODULES ?? '', `${url}\n`)
    return next(url, context)
  },
})
