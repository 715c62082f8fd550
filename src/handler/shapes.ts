/** Sync: the shapes of a session, and the one of an owner's sessions, passed through to Electric. */
import { shapeNames, type ShapeName } from '../contract/records.js'
import { paths } from '../contract/requests.js'
import { readShape, subsetBody, type ShapeRequest } from '../electric/proxy.js'
import { shapeOf, type ShapeScope } from '../electric/shapes.js'
import { Refusal } from './problem.js'
import { defineRoute, type Asked } from './route.js'

const sessionShape = {
  path: paths.shape,
  parts: ['sessionId', 'shape'],
  action: ({ path }: { path: { sessionId: string; shape: string } }) => ({
    verb: 'read' as const,
    sessionId: path.sessionId,
    shape: shapeNamed(path.shape),
  }),
} as const

const listShape = {
  path: paths.sessionsShape,
  parts: [],
  action: () => ({ verb: 'list-sessions' as const, shape: 'sessions' as const }),
} as const

export const shapeRoutes = [
  defineRoute({
    ...sessionShape,
    method: 'GET',
    run: ({ path, ...asked }) => passOn(asked, shapeNamed(path.shape), path),
  }),
  defineRoute({
    ...sessionShape,
    method: 'POST',
    body: subsetBody,
    run: ({ path, ...asked }) => passOn(asked, shapeNamed(path.shape), path, asked.body),
  }),
  defineRoute({
    ...listShape,
    method: 'GET',
    run: ({ grant, ...asked }) => passOn(asked, 'sessions', { ownerId: grant.owner }),
  }),
  defineRoute({
    ...listShape,
    method: 'POST',
    body: subsetBody,
    run: ({ grant, ...asked }) => passOn(asked, 'sessions', { ownerId: grant.owner }, asked.body),
  }),
]

function passOn(
  { host, request, query }: Pick<Asked<never, unknown>, 'host' | 'request' | 'query'>,
  name: ShapeName,
  scope: ShapeScope,
  subset?: ShapeRequest['subset'],
): Promise<Response> {
  return readShape(host.electric, {
    request,
    query,
    shape: shapeOf(host.schema, name, scope),
    ...(subset && { subset }),
    fetch: host.fetch,
  })
}

function shapeNamed(name: string): ShapeName {
  const known = shapeNames.find((one) => one === name)
  if (known) return known
  const message = `There is no such shape. There are ${shapeNames.join(', ')}.`
  throw new Refusal(404, 'NOT_FOUND', message, { field: 'shape' })
}
