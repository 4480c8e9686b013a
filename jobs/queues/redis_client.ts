import type { Cluster, Redis } from 'ioredis'

/** A connection to one Redis, or to a cluster. */
export type RedisClient = Redis | Cluster
