/**
 * Runs so many workers side by side. When one fails the others are told to stop, and all have ended
 * before its error is thrown: nobody goes on with what the caller is about to close.
 */
export async function runConcurrently(
  count: number,
  work: (stopped: () => boolean) => Promise<void>,
): Promise<void> {
  let failed = false
  const outcomes = await Promise.allSettled(
    Array.from({ length: count }, () =>
      work(() => failed).catch(error => {
        failed = true
        throw error
      }),
    ),
  )
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
}
