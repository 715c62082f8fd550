/** A chat is created before its first message can be sent to it; between the two the message waits here. */
const waiting = new Map<string, string>()

export function keepFirstMessage(sessionId: string, content: string): void {
  waiting.set(sessionId, content)
}

/** Gives it out once. */
export function takeFirstMessage(sessionId: string): string | undefined {
  const content = waiting.get(sessionId)
  waiting.delete(sessionId)
  return content
}
