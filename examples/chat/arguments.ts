/** The command line of the chat example: what was wished for, and the help. */
import { parseArgs } from 'node:util'

export interface Wish {
  /** Absent: a conversation, or the question on stdin. */
  ask?: string
  json: boolean
  kill: boolean
  dataDir?: string
  help: boolean
}

/** What was wished for cannot be done as it was written. */
export class UsageError extends Error {}

export const USAGE = `Usage: npm run demo -- [--ask "…"] [--json] [--kill] [--data-dir D]

Asks an agent whose every step is a row in Postgres. Without --ask it is a conversation; a question may
also come from a pipe. Chat page: not part of this version yet.

  --ask "…"       one question; exit code 0 if its generation completed
  --kill          kill -9 the worker process in mid-sentence; a second one goes on
  --json          the last line on stdout is one JSON object (below)
  --data-dir D    where Postgres is kept (default .electric-ai-db)
  --help

Uses the services of DATABASE_URL and STREAMS_URL where they are set and starts its own where not.
The model: OPENAI_API_KEY, ANTHROPIC_API_KEY, or OLLAMA_HOST with OLLAMA_MODEL; else an offline one.

The JSON object:
  generation        status of its row: completed, failed or cancelled
  toolCalls         rows in tool_calls
  tokens            words the reader was shown
  firstTokenMs      from sendMessage's return to the first text at the reader
  sqlRoundTrips     SQL statements of the generation's run, from its claim to its cutover; of one that
                    changed hands, only the finisher's
  text              the stored message
and with --kill:
  killToNextTokenMs from kill -9 to the first new character the next worker wrote, at the reader;
                    what the dead one had still sent does not count; null if nothing was killed
  lostChars         characters of the unbroken answer that are missing
  duplicatedChars   characters that are there and not in the unbroken answer
                    (both by longest common subsequence, the worst of three: the reader's text as the
                    stream alone had it at its end, the reader's text, the stored message. The
                    unbroken answer is computed anew from the question and the tool results, as the
                    offline model's words depend on nothing else; a real model's do, and there the
                    stored message stands for it)
  rewrites          how often text already shown was taken back; a real model starts its answer over
  toolExecutions    how often a tool's function was run, over all worker processes
  attempts          claims of the generation`

/** @throws UsageError naming the flag. */
export function readWish(argv: string[]): Wish {
  const { ask, 'data-dir': dataDir, json, kill, help } = parsed(argv)
  if (ask?.trim() === '') {
    throw new UsageError('--ask is empty. Give it a question: --ask "What is 17*23?"')
  }
  if (dataDir?.trim() === '') throw new UsageError('--data-dir is empty. Give it a directory.')
  return { json, kill, help, ...(ask && { ask }), ...(dataDir && { dataDir }) }
}

function parsed(argv: string[]) {
  try {
    return parseArgs({
      args: argv,
      options: {
        ask: { type: 'string' },
        'data-dir': { type: 'string' },
        json: { type: 'boolean', default: false },
        kill: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }).values
  } catch (thrown) {
    if (!(thrown instanceof TypeError)) throw thrown
    throw new UsageError(`${thrown.message}\nSee --help.`)
  }
}
