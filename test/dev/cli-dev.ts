/** `electric-ai-db dev` as a process of its own, without the dispatcher around it. */
import { dev } from '../../src/cli/dev.js'

void dev(process.argv.slice(2)).then((code) => {
  process.exitCode = code
})
