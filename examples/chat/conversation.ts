/** The conversation: a prompt on a terminal, one turn after the other in one session. */
import { createInterface } from 'node:readline/promises'

/**
 * Until `exit`, Ctrl-D or Ctrl-C at the prompt. Ctrl-C during an answer stops that and the conversation.
 *
 * @param stopping aborted with the exit code to end with.
 */
export async function converse(
  answer: (question: string) => Promise<unknown>,
  stopping: AbortController,
): Promise<void> {
  while (!stopping.signal.aborted) {
    const question = await prompt(stopping)
    if (question === undefined || question === 'exit') return
    if (question !== '') await answer(question)
  }
}

/** Open only while it waits: during an answer Ctrl-C is the terminal's usual signal. */
async function prompt({ signal }: AbortController): Promise<string | undefined> {
  const lines = createInterface({ input: process.stdin, output: process.stdout })
  try {
    const closed = new Promise<undefined>((resolve) => {
      lines.once('close', () => resolve(undefined))
      lines.once('SIGINT', () => lines.close())
    })
    const line = await Promise.race([lines.question('\nyou> ', { signal }), closed])
    return line?.trim()
  } catch (thrown) {
    if (signal.aborted) return undefined
    throw thrown
  } finally {
    lines.close()
  }
}
