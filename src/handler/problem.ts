/**
 * The one seam where failures become answers: RFC 9457 problem details with a code of a closed set.
 *
 * Nothing from inside is told: an error that came from the database is answered in the words of its code, and one
 * that nobody foresaw as INTERNAL. Everything that is the host's business goes to `onError`.
 */
import type { Problem } from '../contract/requests.js'
import { AiDbError, type AiDbErrorCode } from '../errors.js'
import { UpstreamError } from '../internal/forward.js'
import { Denied, type Action } from './authorize.js'

/** A refusal the handler makes itself. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  constructor(
    readonly status: number,
    readonly code: AiDbErrorCode,
    message: string,
    readonly more: { field?: string; headers?: Record<string, string> } = {},
  ) {
    super(message)
  }
}

/** For what a client can mend: the status, and the words where those of the error are not ours. */
interface Meaning {
  status: number
  detail: string
  /** Its message is always ours, even where a trigger or a function of `migrations/` said it. */
  ours: boolean
}

const inWords = (status: number, detail: string, ours = false): Meaning => ({
  status,
  detail,
  ours,
})

/** Codes that are not here are the host's business: 500 INTERNAL. */
const meanings: Partial<Record<AiDbErrorCode, Meaning>> = {
  INVALID_INPUT: inWords(400, 'A value does not fit, or not the row it is for. Correct it.'),
  UNKNOWN_AGENT: inWords(422, 'No running worker serves this agent. Name another one.'),
  DUPLICATE_ID: inWords(409, 'Another row has this id. Send a new id.'),
  FENCED: inWords(409, 'It is no longer held by this executor. Drop the result.'),
  ILLEGAL_TRANSITION: inWords(
    409,
    'The row has moved on. Look at its status and decide again.',
    true,
  ),
  NOT_APPROVED: inWords(409, 'It lacks approvals. Ask for them first.', true),
  STALE_APPROVAL: inWords(409, 'Its arguments are others by now. Look at them again.', true),
  STREAM_FAILED: inWords(404, 'There is no live text. Read the chunks and the message instead.'),
  DATABASE_UNREACHABLE: inWords(503, 'The service cannot reach its database. Try again.'),
}

/** Clients of both protocols wait this long, and then try again. */
const RETRY_AFTER = { 'retry-after': '1' }

export interface Told {
  response: Response
  /** Is it the host's business? */
  unexpected: boolean
}

/** @param action What was asked, if that was understood. */
export function answerFailure(error: unknown, action: Action | undefined): Told {
  if (error instanceof Refusal) return told(refusalResponse(error))
  if (error instanceof Denied) return told(denialResponse(error, action))
  if (error instanceof UpstreamError) {
    const detail = 'A service behind this one is not available. Try again.'
    return told(problem(502, 'UPSTREAM_FAILED', detail, { headers: RETRY_AFTER }), true)
  }
  if (error instanceof AiDbError) return errorResponse(error, action)
  return told(internal(), true)
}

function errorResponse(error: AiDbError, action: Action | undefined): Told {
  const { code, field } = error
  if (code === 'UNKNOWN_SESSION' || code === 'NOT_FOUND') return told(missing(action))
  const meaning = meanings[code]
  if (!meaning) return told(internal(), true)
  const { status } = meaning
  // Foreign words stay inside: Postgres names tables, and send names every agent there is.
  const foreign = !meaning.ours && error.cause !== undefined
  const untold = foreign || status >= 500 || code === 'UNKNOWN_AGENT'
  const detail = untold ? meaning.detail : error.message
  const headers = status === 503 ? RETRY_AFTER : {}
  const known = field === 'targetAgent' ? 'agent' : field
  const response = problem(status, code, detail, {
    ...(known !== undefined && status < 500 && { field: known }),
    headers,
  })
  return told(response, status >= 500)
}

/**
 * What is not there, and what the host will not admit to be there, in the same words: by what the request names,
 * not by what was found.
 */
function missing(action: Action | undefined): Response {
  const { messageId, generationId, toolCallId } = action ?? {}
  if ((messageId ?? generationId ?? toolCallId) !== undefined) {
    return problem(404, 'NOT_FOUND', 'There is no such row in this session. Check the ids.')
  }
  return problem(404, 'UNKNOWN_SESSION', 'There is no such session. Create it first.', {
    field: 'sessionId',
  })
}

function denialResponse({ denial }: Denied, action: Action | undefined): Response {
  const { deny, detail } = denial
  if (deny === 'not-found') return missing(action)
  if (deny === 'unauthenticated') {
    return problem(401, 'UNAUTHENTICATED', detail ?? 'Nobody known asks. Log in and try again.')
  }
  return problem(403, 'FORBIDDEN', detail ?? 'You may not do this. Ask whoever may allow it.')
}

function refusalResponse({ status, code, message, more }: Refusal): Response {
  return problem(status, code, message, more)
}

const internal = () =>
  problem(500, 'INTERNAL', 'Something went wrong on our side. Try again later.')

const told = (response: Response, unexpected = false): Told => ({ response, unexpected })

const titles: Readonly<Record<number, string>> = {
  400: 'Bad request',
  401: 'Not authenticated',
  403: 'Forbidden',
  404: 'Not found',
  405: 'Method not allowed',
  409: 'Conflict',
  413: 'Too large',
  415: 'Wrong content type',
  422: 'Cannot be done',
  429: 'Too many requests',
  500: 'Internal error',
  502: 'Upstream failed',
  503: 'Unavailable',
}

export function problem(
  status: number,
  code: AiDbErrorCode,
  detail: string,
  more: { field?: string; headers?: Record<string, string> } = {},
): Response {
  const body: Problem = {
    type: 'about:blank',
    title: titles[status] ?? 'Error',
    status,
    code,
    detail,
    ...(more.field !== undefined && { field: more.field }),
  }
  return new Response(JSON.stringify(body), {
    status,
    headers: {
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      ...more.headers,
    },
  })
}
