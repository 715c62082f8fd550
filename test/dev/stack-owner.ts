/**
 * A process that owns a stack, to be killed by the tests: starts one in the directory it is given,
 * prints it as one line of JSON and stays. With a second argument `stop` it stops it at once, and
 * then must end by itself.
 */
import { startDevStack } from '../../src/dev/stack.js'

const [dataDir, then] = process.argv.slice(2)

void startDevStack({ dataDir, env: {} }).then(async (stack) => {
  console.log(JSON.stringify(stack))
  if (then === 'stop') await stack.stop()
})
