/** Since when a newer state of a company has been known than the one that is served here, and why that is so. */
export type Behind = { readonly since: Date; readonly why: string }
