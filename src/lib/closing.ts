/** Closes what was opened once its block ends, however it ends: `using file = closing(open())`. */
export function closing<T extends { close(): unknown }>(opened: T): T & Disposable & AsyncDisposable {
  return Object.assign(opened, {
    [Symbol.dispose]: () => void opened.close(),
    [Symbol.asyncDispose]: async () => void (await opened.close()),
  })
}
