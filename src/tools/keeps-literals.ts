/**
 * Makes TypeScript keep the literal in `status: 'pending'` where a callback's result is checked against an
 * inferred type: otherwise it is widened to `string` before the row's type is known. As part of a union this
 * accepts nothing: no value has the symbol.
 */
declare const nothing: unique symbol

export interface KeepsLiterals {
  readonly [nothing]: never
  readonly [field: string]: 'pending' | 'queued'
}
