/** Writes to the object store or the catalog, by what they write: a run may die before and after each. */
export const REMOTE_STEPS = ['remote.upload', 'remote.metadata', 'remote.commit', 'remote.latest'] as const
export type RemoteStep = (typeof REMOTE_STEPS)[number]
