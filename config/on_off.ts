import { z } from 'zod'

/** A setting that is on or off. */
export const onOff = z.enum(['on', 'off'], 'must be on or off')
