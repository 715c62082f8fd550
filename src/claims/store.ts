/**
 * The store: every verb on the contract tables, bound to one database. What the worker itself is made of, for
 * hosts that bring their own runner.
 */
import { cancelGeneration } from './cancel.js'
import { claimGenerations } from './claim-generations.js'
import { claimOwnToolCalls, claimToolCalls, claimToolCallsById } from './claim-tool-calls.js'
import { insertChunks } from './insert-chunks.js'
import { generationForMessage, readGeneration, readToolCalls } from './read-generation.js'
import { recordStep } from './record-step.js'
import { expireWaits, recoverWorkers } from './recover.js'
import { putDownGeneration, releaseGeneration, releaseToolCalls } from './release.js'
import { settleGeneration } from './settle-generation.js'
import { settleToolCall, settleToolCalls } from './settle-tool-calls.js'
import { releaseLostToolCalls } from './release-lost-claims.js'
import { checkHeldToolCalls, deregisterWorker, registerWorker, renewLease } from './workers.js'
import {
  toDatabase,
  type Database,
  type DatabaseOptions,
  type DrizzleDatabase,
} from '../internal/database.js'

const verbs = {
  cancelGeneration,
  checkHeldToolCalls,
  claimGenerations,
  claimOwnToolCalls,
  claimToolCalls,
  claimToolCallsById,
  deregisterWorker,
  expireWaits,
  generationForMessage,
  insertChunks,
  putDownGeneration,
  readGeneration,
  readToolCalls,
  recordStep,
  recoverWorkers,
  registerWorker,
  releaseGeneration,
  releaseLostToolCalls,
  releaseToolCalls,
  renewLease,
  settleGeneration,
  settleToolCall,
  settleToolCalls,
}

type Verbs = typeof verbs

/** A verb without its database. */
type Bound<Verb> = Verb extends (db: Database, ...args: infer Args) => infer Result
  ? (...args: Args) => Result
  : never

export type Store = { readonly [Name in keyof Verbs]: Bound<Verbs[Name]> } & {
  /** SQL statements sent so far. */
  readonly roundTrips: number
}

/**
 * Binds the verbs to a Drizzle database.
 *
 * @throws AiDbError INVALID_INPUT when `db` is neither a `postgres-js` nor a `node-postgres` Drizzle database.
 */
export function createStore(db: DrizzleDatabase, options: DatabaseOptions = {}): Store {
  const database = toDatabase(db, options)
  const bound = Object.entries(verbs).map(([name, verb]) => [
    name,
    (verb as (...args: unknown[]) => unknown).bind(undefined, database),
  ])
  return Object.defineProperty(Object.fromEntries(bound) as Store, 'roundTrips', {
    get: () => database.roundTrips,
  })
}
