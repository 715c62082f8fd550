/**
 * What an HTTP answer, or none, is as an error: the one seam where failures of the handler become
 * `AiDbError`s in a browser. A problem-details body keeps its code, field and words.
 */
import { AiDbError, toError, type AiDbErrorCode } from '../errors.js'

/** Never throws; reads the body. */
export async function errorOfResponse(response: Response): Promise<AiDbError> {
  const problem = await problemOf(response)
  const { code, detail, title, field } = problem
  const message = [detail, title].find((text) => typeof text === 'string' && text !== '')
  return new AiDbError(
    typeof code === 'string' ? (code as AiDbErrorCode) : codeOfStatus(response.status),
    message ? String(message) : `The server answered ${response.status}. Look into its log.`,
    typeof field === 'string' ? { field } : {},
  )
}

export function errorOfFailedFetch(thrown: unknown): AiDbError {
  return new AiDbError(
    'SERVER_UNREACHABLE',
    `The server could not be reached (${toError(thrown).message}). It is tried again by itself.`,
    { cause: thrown },
  )
}

/** Is it worth asking the same again? Not where the server understood and said no. */
export function isPassing(status: number): boolean {
  return status >= 500 || status === 429 || status === 408 || status === 425
}

async function problemOf(response: Response): Promise<Record<string, unknown>> {
  try {
    const body: unknown = JSON.parse(await response.text())
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function codeOfStatus(status: number): AiDbErrorCode {
  if (status === 401) return 'UNAUTHENTICATED'
  if (status === 403) return 'FORBIDDEN'
  if (status === 404 || status === 410) return 'NOT_FOUND'
  if (status === 413) return 'TOO_LARGE'
  if (status === 429) return 'RATE_LIMITED'
  return status >= 500 ? 'UPSTREAM_FAILED' : 'INVALID_INPUT'
}
