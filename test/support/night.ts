/** At night, `SEEDS` says of how many seeds random tests are; what takes long is then complete, too. */
export const IS_NIGHT = process.env.SEEDS !== undefined
