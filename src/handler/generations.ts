/** Runs: where one stands, its end by hand, its turn again. */
import { readGeneration, type GenerationState } from '../claims/read-generation.js'
import { cancelBody, paths, retryBody, type GenerationStatusAnswer } from '../contract/requests.js'
import { AiDbError } from '../errors.js'
import { cancelGeneration } from '../sessions/cancel-generation.js'
import { retryGeneration } from '../sessions/retry-generation.js'
import type { Host } from './options.js'
import { defineRoute } from './route.js'

const statusRoute = defineRoute({
  method: 'GET',
  path: paths.generation,
  parts: ['sessionId', 'generationId'],
  action: ({ path }) => ({ verb: 'read', ...path }),
  async run({ host, path }): Promise<GenerationStatusAnswer> {
    const row = await requireGeneration(host, path)
    const { id, status, attempt, error, cancelReason, content } = row
    return { id, status, attempt, error, cancelReason, content }
  },
})

const cancelRoute = defineRoute({
  method: 'POST',
  path: paths.cancel,
  parts: ['sessionId', 'generationId'],
  body: cancelBody,
  action: ({ path }) => ({ verb: 'cancel', ...path }),
  run: ({ host: { db, schema }, path }) => cancelGeneration(db, path, { schema }),
})

const retryRoute = defineRoute({
  method: 'POST',
  path: paths.retry,
  parts: ['sessionId', 'generationId'],
  body: retryBody,
  action: ({ path, body }) => ({ verb: 'retry', ...path, id: body.id }),
  run: ({ host: { db, schema }, path, body, grant }) =>
    retryGeneration(db, { ...path, ...body, actorId: grant.actor }, { schema }),
})

export const generationRoutes = [statusRoute, cancelRoute, retryRoute]

/** @throws AiDbError NOT_FOUND, also for a generation of another session. */
export async function requireGeneration(
  host: Host,
  { sessionId, generationId }: { sessionId: string; generationId: string },
): Promise<GenerationState> {
  const row = await readGeneration(host.database, generationId)
  if (row?.sessionId === sessionId) return row
  throw new AiDbError('NOT_FOUND', 'There is no such generation in this session.', {
    field: 'generationId',
  })
}
