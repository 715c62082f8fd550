/**
 * Who may do what: the host's one decision, asked for every request before anything is read or written.
 *
 * It fails closed. No answer, half an answer or an exception is not a grant; the client then learns only
 * that something went wrong here, the host's `onError` the rest.
 */
import type { ShapeName } from '../contract/records.js'
import type { Verb } from '../contract/requests.js'

/** What a request asks for: the verb, and everything it names, from its path and its checked body. */
export interface Action {
  verb: Verb
  /** Absent only for 'list-sessions' and 'create-session'. */
  sessionId?: string
  /** The shape that is read. */
  shape?: ShapeName
  messageId?: string
  generationId?: string
  toolCallId?: string
  /** Of a message that is sent. */
  agent?: string
  /** Which tools an executor wants calls of. */
  tools?: string[]
  executorId?: string
  /** Of the row that the request would create: a client makes its own ids. */
  id?: string
}

export interface Grant {
  /** Who it is: the author of messages and votes. */
  actor: string
  /** Whose sessions are listed, and whose a new one is: a user, a team. @default the actor */
  owner?: string
}

export interface Denial {
  /**
   * 'unauthenticated': 401, nobody known asks. 'forbidden': 403. 'not-found': 404, word for word what a
   * session, or a row in one, that does not exist is answered with.
   */
  deny: 'unauthenticated' | 'forbidden' | 'not-found'
  /** For people. Not told with 'not-found'. */
  detail?: string
}

/** Decides about one request. The request's body has been read: `action` has what is in it. */
export type Authorize = (
  request: Request,
  action: Action,
) => Grant | Denial | Promise<Grant | Denial>

/** A checked grant: who, and for whom. */
export interface Allowed {
  actor: string
  owner: string
}

/** The host said no. */
export class Denied extends Error {
  override readonly name = 'Denied'
  constructor(readonly denial: Denial) {
    super(`denied: ${denial.deny}`)
  }
}

/** @throws Denied; TypeError when the host's answer is neither a grant nor a denial. */
export async function ask(
  authorize: Authorize,
  request: Request,
  action: Action,
): Promise<Allowed> {
  const answer: unknown = await authorize(request, action)
  if (typeof answer !== 'object' || answer === null) throw noAnswer(action)
  if ('deny' in answer) throw new Denied(answer as Denial)
  const { actor, owner = actor } = answer as Partial<Grant>
  if (!isName(actor) || !isName(owner)) throw noAnswer(action)
  return { actor, owner }
}

const isName = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= 200

const noAnswer = (action: Action) =>
  new TypeError(
    `authorize() answered '${action.verb}' with neither { actor } (1 to 200 characters) nor { deny }. ` +
      'Return one of them; the request was refused.',
  )
