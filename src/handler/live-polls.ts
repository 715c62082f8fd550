/**
 * Long polls of several shapes in one request: what a tab's collections wait for, over one connection.
 *
 * Each poll is asked of `authorize`, refused or passed to Electric as if it had come alone. The first that is answered ends
 * the wait; what comes in the same moment goes with it, and the others are dropped: their offsets have
 * not moved, so the client asks for them again and misses nothing.
 */
import { shapeNames, type ShapeName } from '../contract/records.js'
import {
  livePollsBody,
  paths,
  type LivePollsAnswer,
  type LivePollsBody,
} from '../contract/requests.js'
import { readShape } from '../electric/proxy.js'
import { shapeOf } from '../electric/shapes.js'
import { delay } from '../internal/abort.js'
import { ask, type Action, type Allowed } from './authorize.js'
import type { Host } from './options.js'
import { answerFailure, Refusal } from './problem.js'
import { defineRoute } from './route.js'

type Poll = LivePollsBody['polls'][number]
type Answer = LivePollsAnswer['answers'][number]

/** One transaction touches several shapes, and their answers come one after the other. */
const SAME_MOMENT_MS = 4

export const livePollsRoute = defineRoute({
  method: 'POST',
  path: paths.live,
  parts: [],
  body: livePollsBody,
  action: ({ body }) => actionOf(body.polls[0]!),
  async run({ host, request, body, grant }): Promise<LivePollsAnswer> {
    return { answers: await firstAnswers(host, request, body.polls, grant) }
  },
})

function actionOf({ sessionId, shape }: Poll): Action {
  const known = shapeNamed(shape)
  if (sessionId !== undefined) return { verb: 'read', sessionId, shape: known }
  if (known !== 'sessions') throw noShape()
  return { verb: 'list-sessions', shape: known }
}

async function firstAnswers(
  host: Host,
  request: Request,
  polls: readonly Poll[],
  grant: Allowed,
): Promise<Answer[]> {
  const stop = new AbortController()
  const abort = () => stop.abort()
  request.signal.addEventListener('abort', abort)
  if (request.signal.aborted) abort()
  const answers: Answer[] = []
  const asked = polls.map(async (poll, index) => {
    const alone = new Request(request.url, { headers: request.headers, signal: stop.signal })
    // The first one's action was the request's own.
    const answer = await pollShape(host, alone, poll, index === 0 ? grant : undefined)
    // Dropped ones end with the wait, and have nothing to say.
    if (!stop.signal.aborted) answers.push({ index, ...answer })
  })
  try {
    await Promise.race(asked)
    if (answers.length < polls.length) await delay(SAME_MOMENT_MS, stop.signal)
    return answers
  } finally {
    request.signal.removeEventListener('abort', abort)
    abort()
    await Promise.allSettled(asked)
  }
}

async function pollShape(
  host: Host,
  request: Request,
  poll: Poll,
  granted: Allowed | undefined,
): Promise<Omit<Answer, 'index'>> {
  let action: Action | undefined
  try {
    action = actionOf(poll)
    const { owner } = granted ?? (await ask(host.authorize, request, action))
    const { sessionId } = poll
    const scope = sessionId === undefined ? { ownerId: owner } : { sessionId }
    const response = await readShape(host.electric, {
      request,
      query: new URLSearchParams(poll.query),
      shape: shapeOf(host.schema, shapeNamed(poll.shape), scope),
      fetch: host.fetch,
    })
    return await written(response)
  } catch (error) {
    if (request.signal.aborted) return { status: 499, headers: {}, body: '' }
    const { response, unexpected } = answerFailure(error, action)
    if (unexpected) tell(host, error, request)
    return written(response)
  }
}

function tell(host: Host, error: unknown, request: Request): void {
  try {
    host.onError(error, request)
  } catch {
    // A host's log must not cost its clients their answer.
  }
}

async function written(response: Response): Promise<Omit<Answer, 'index'>> {
  const { status, headers } = response
  return { status, headers: Object.fromEntries(headers), body: await response.text() }
}

function shapeNamed(name: string): ShapeName {
  const known = shapeNames.find((one) => one === name)
  if (known) return known
  throw noShape()
}

const noShape = () =>
  new Refusal(404, 'NOT_FOUND', `There is no such shape. There are ${shapeNames.join(', ')}.`, {
    field: 'shape',
  })
