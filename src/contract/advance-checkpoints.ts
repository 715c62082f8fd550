/** Which checkpoints of a batch go forward, and a refusal of the whole batch if one goes back. Pure. */
import { AiDbError } from '../errors.js'
import type { CheckpointContract } from './lifecycle.js'

type Compare = (a: string, b: string, source: string) => number

/**
 * @param recorded the last cursor of each source; not changed.
 * @returns the newest checkpoint of each source that is further than the recorded one.
 * @throws AiDbError CHECKPOINT_REGRESSED for a cursor before the recorded one, or before an earlier one of the batch;
 *   INVALID_INPUT for an empty source or cursor.
 */
export function advanceCheckpoints(
  recorded: ReadonlyMap<string, string>,
  checkpoints: readonly CheckpointContract[],
  compare: Compare,
): CheckpointContract[] {
  const forward = new Map<string, string>()
  for (const { source, cursor } of checkpoints) {
    requireText('source', source)
    requireText('cursor', cursor)
    const last = forward.get(source) ?? recorded.get(source)
    const order = last === undefined ? 1 : compare(cursor, last, source)
    if (order < 0) throw regressed(source, cursor, last!)
    if (order > 0) forward.set(source, cursor)
  }
  return [...forward].map(([source, cursor]) => ({ source, cursor }))
}

export function regressed(source: string, cursor: string, last: string): AiDbError {
  return new AiDbError(
    'CHECKPOINT_REGRESSED',
    `The checkpoint of '${source}' would go back from '${last}' to '${cursor}'. Record cursors in the order they were read; ` +
      'a source that began anew needs a new name, or its checkpoint forgotten.',
    { field: 'cursor' },
  )
}

function requireText(field: 'source' | 'cursor', value: unknown): void {
  if (typeof value === 'string' && value !== '') return
  throw new AiDbError('INVALID_INPUT', `A checkpoint needs a ${field}: a text that is not empty.`, {
    field,
  })
}
