/** A call's row marked as cancelled, in whatever collection it is: the contract's `status`, and the reason if the row has a place for it. */
import type { CancelReason } from '../contract/status.js'
import { persisted } from '../internal/persisted.js'

type Key = string | number
type Row = Record<string, unknown>

/** What is asked of the collection: any TanStack DB collection has it. */
export interface UpdatableCollection {
  get(key: Key): Row | undefined
  update(key: Key, change: (draft: Row) => void): unknown
}

/** Resolves when the row says so, at once if it is gone, cancelled already, or has no status. */
export async function cancelRow(
  collection: UpdatableCollection,
  key: Key,
  reason: CancelReason,
): Promise<void> {
  const row = collection.get(key)
  if (!row || !('status' in row) || row.status === 'cancelled') return
  await persisted(
    collection.update(key, (draft) => {
      draft.status = 'cancelled'
      if ('cancelReason' in row) draft.cancelReason = reason
    }),
  )
}

const REASONS: readonly unknown[] = ['by-user', 'by-timeout', 'by-error'] satisfies CancelReason[]

/** Why a cancelled row was cancelled, as far as it says. */
export function cancelReasonOf(row: object): CancelReason {
  const { cancelReason } = row as { cancelReason?: unknown }
  return REASONS.includes(cancelReason) ? (cancelReason as CancelReason) : 'by-user'
}
