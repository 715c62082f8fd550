/** Every route there is. A test holds this list to the one of what may not be reached across sessions. */
import { approvalRoutes } from './approvals.js'
import { browserToolRoutes } from './browser-tools.js'
import { generationRoutes } from './generations.js'
import { livePollsRoute } from './live-polls.js'
import { messageRoutes } from './messages.js'
import type { Route } from './route.js'
import { sessionRoutes } from './sessions.js'
import { shapeRoutes } from './shapes.js'
import { streamRoute } from './stream.js'

export const routes: readonly Route[] = [
  ...shapeRoutes,
  livePollsRoute,
  streamRoute,
  ...sessionRoutes,
  ...messageRoutes,
  ...generationRoutes,
  ...approvalRoutes,
  ...browserToolRoutes,
]
