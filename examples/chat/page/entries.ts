/**
 * The thread as it is read: people's messages by `seq`, and each answer right under the last message it
 * answers. An answer has that place from its first moment, while only its generation row exists, so nothing
 * moves when its message arrives, whatever was said in between.
 */
import type { GenerationRecord, MessageRecord } from 'electric-ai-db/client'

/** A row, and whether the server has confirmed it. */
type Synced<Row> = Row & { readonly $synced?: boolean }

export type Entry =
  | { kind: 'message'; key: string; message: Synced<MessageRecord> }
  | { kind: 'answer'; key: string; generation: GenerationRecord; message?: MessageRecord }

const SETTLED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

export function isRunning({ status }: Pick<GenerationRecord, 'status'>): boolean {
  return !SETTLED.has(status)
}

/** @param messages by `seq`; @param generations oldest first. */
export function threadEntries(
  messages: readonly Synced<MessageRecord>[],
  generations: readonly GenerationRecord[],
): Entry[] {
  const visible = messages.filter((message) => message.supersededBy === null)
  const answers = new Map(visible.map((message) => [message.generationId, message]))
  const known = new Set(generations.map(({ id }) => id))
  const placed = new Map<string | undefined, Entry[]>()
  for (const generation of generations) {
    const message = answers.get(generation.id)
    const asked = visible.findLast((one) => asks(one, generation))
    if (message === undefined && !isRunning(generation) && asked === undefined) continue
    const after = asked?.id ?? message?.id ?? visible.findLast(({ role }) => role === 'user')?.id
    const entry: Entry = {
      kind: 'answer',
      key: generation.id,
      generation,
      ...(message && { message }),
    }
    placed.set(after, [...(placed.get(after) ?? []), entry])
  }
  const isAnswer = ({ generationId }: MessageRecord) =>
    generationId !== null && known.has(generationId)
  const entries = visible.flatMap((message): Entry[] => [
    ...(isAnswer(message) ? [] : [{ kind: 'message' as const, key: message.id, message }]),
    ...(placed.get(message.id) ?? []),
  ])
  return [...entries, ...(placed.get(undefined) ?? [])]
}

/** Does this generation answer that message? One that was retried or cut off by an edit does no longer. */
function asks(message: MessageRecord, generation: GenerationRecord): boolean {
  if (message.processedBy === generation.id) return true
  if (message.processedBy !== null || !generation.inbox.includes(message.id)) return false
  // A settled one's message is marked in the same transaction, and may arrive a moment later.
  return isRunning(generation) || generation.metadata['supersededBy'] === undefined
}
