/** The command line of the chat example: what was wished for, and the help. */
import { parseArgs } from 'node:util'

export interface Wish {
  /** Absent: a conversation, or the question on stdin. */
  ask?: string
  json: boolean
  kill: boolean
  /** No terminal chat: the page alone, until it is stopped. */
  page?: boolean
  /** Of the page. */
  port?: number
  dataDir?: string
  help: boolean
}

/** What was wished for cannot be done as it was written. */
export class UsageError extends Error {}

export const USAGE = `Usage: npm run demo -- [--page] [--port P] [--ask "…"] [--json] [--kill] [--data-dir D]

A chat with an agent whose every step is a row in Postgres: in the browser, at the address it prints, and in
this terminal.

  --page          the page alone, until Ctrl-C
  --port P        of the page (default 4747, or any free one)
  --ask "…"       no page, one question; exit code 0 if its generation completed. A question may also
                  come from a pipe
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
  const { ask, 'data-dir': dataDir, json, kill, page, port, help } = parsed(argv)
  if (ask?.trim() === '') {
    throw new UsageError('--ask is empty. Give it a question: --ask "What is 17*23?"')
  }
  if (dataDir?.trim() === '') throw new UsageError('--data-dir is empty. Give it a directory.')
  if (page && ask !== undefined) throw new UsageError('--page takes no question. Ask in the page.')
  return {
    json,
    kill,
    help,
    ...(page && { page }),
    ...(port !== undefined && { port: readPort(port) }),
    ...(ask && { ask }),
    ...(dataDir && { dataDir }),
  }
}

function readPort(text: string): number {
  const port = Number(text)
  if (/^\d+$/.test(text) && port <= 65_535) return port
  throw new UsageError(`--port is "${text}". Give it a number from 0 (any free port) to 65535.`)
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
        page: { type: 'boolean', default: false },
        port: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }).values
  } catch (thrown) {
    if (!(thrown instanceof TypeError)) throw thrown
    throw new UsageError(`${thrown.message}\nSee --help.`)
  }
}
