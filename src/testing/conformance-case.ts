/** A case of a conformance suite, for any test runner: `for (const { name, run } of cases) test(name, run)`. */
import { AiDbError, type AiDbErrorCode } from '../errors.js'

export interface ConformanceCase {
  readonly name: string
  /** Rejects with an error that says what was expected. */
  run(): Promise<void>
}

export const codeOf = (thrown: unknown): string =>
  thrown instanceof AiDbError ? thrown.code : `an error without a code (${String(thrown)})`

/** Throws unless `outcome` is refused with this code. */
export async function expectCode(
  what: string,
  outcome: Promise<unknown> | undefined,
  code: AiDbErrorCode,
): Promise<void> {
  const got = await (outcome ?? Promise.resolve()).then(
    () => 'it was accepted',
    (thrown: unknown) => codeOf(thrown),
  )
  if (got !== code) throw new Error(`Expected ${what} to be refused with ${code}, but got: ${got}.`)
}

/** Throws unless both are the same as JSON. */
export function expectSame(what: string, got: unknown, expected: unknown): void {
  const [is, shouldBe] = [JSON.stringify(got), JSON.stringify(expected)]
  if (is !== shouldBe) throw new Error(`Expected ${what} to be ${shouldBe}, but got: ${is}.`)
}
