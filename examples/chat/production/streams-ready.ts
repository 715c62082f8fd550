/** Ends when the stream server answers: its image has no shell to be asked by a health check. */
import { setTimeout as delay } from 'node:timers/promises'
import { readEnvironment } from './environment.js'

const TRY_FOR_MS = 60_000

const { streamsUrl } = readEnvironment()
const until = Date.now() + TRY_FOR_MS
// Any answer is one: there is no stream of this name.
const answers = () =>
  fetch(`${streamsUrl}/v1/stream/ready`, { method: 'HEAD' }).then(
    () => true,
    () => false,
  )
while (!(await answers())) {
  if (Date.now() > until) throw new Error(`${streamsUrl} did not answer within ${TRY_FOR_MS} ms.`)
  await delay(500)
}
