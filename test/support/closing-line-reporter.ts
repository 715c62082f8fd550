/**
 * Ends a run with one plain line, `N passed, N failed, N skipped`, alone and last, for programs that
 * read the output. A file that could not be loaded and an error outside of any test count as failed:
 * a red run must never read `0 failed`.
 */
import type { Reporter, SerializedError, TestModule } from 'vitest/node'

export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const counts = { passed: 0, failed: unhandled.length, skipped: 0 }
    for (const module of modules) {
      let failedHere = 0
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        if (state === 'passed') counts.passed += 1
        else if (state === 'failed') failedHere += 1
        else counts.skipped += 1
      }
      counts.failed += failedHere === 0 && module.state() === 'failed' ? 1 : failedHere
    }
    const line = `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`
    // After everything the other reporters still have to say about the same event.
    process.once('exit', () => process.stdout.write(`\n${line}\n`))
  }
}
