/** Every route there is. A test holds this list to the one of what may not be reached across sessions. */
import { generationRoutes } from './generations.js'
import { messageRoutes } from './messages.js'
import type { Route } from './route.js'
import { sessionRoutes } from './sessions.js'
import { shapeRoutes } from './shapes.js'
import { streamRoute } from './stream.js'

export const routes: readonly Route[] = [
  ...shapeRoutes,
  streamRoute,
  ...sessionRoutes,
  ...messageRoutes,
  ...generationRoutes,
]
