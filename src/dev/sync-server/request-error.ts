/** What a request can be told instead of data: thrown anywhere below the HTTP layer, answered there. */

export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly body: unknown,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(`request answered with ${status}`)
  }
}

/** 400 in Electric's words: which parameter, and what is wrong with it. */
export function invalidRequest(field: string, problem: string): RequestError {
  const [outer, inner] = field.split('.') as [string, string?]
  const errors = inner ? { [outer]: { [inner]: [problem] } } : { [outer]: [problem] }
  return new RequestError(400, { message: 'Invalid request', errors })
}

/** 409: the log this client follows is gone. It starts again, with the handle given here. */
export function mustRefetch(handle: string): RequestError {
  return new RequestError(409, [{ headers: { control: 'must-refetch' } }], {
    'electric-handle': handle,
    'cache-control': 'no-store',
  })
}

/** 503: the database or its replication is away; clients come back by themselves. */
export function notReady(why: string): RequestError {
  return new RequestError(503, { message: why }, { 'retry-after': '1' })
}
