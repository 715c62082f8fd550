/**
 * Ends a run with one plain line, `N passed, N failed, N skipped`, alone and last, for programs that
 * read the output. What fails outside of any test counts too: a red run must never read `0 failed`.
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
    // After everything the other reporters still have to say about the same event.
    process.once('exit', (code) => {
      // A global setup that threw is in no module and in no list, only in the exit code.
      if (code !== 0 && counts.failed === 0) counts.failed = 1
      const { passed, failed, skipped } = counts
      process.stdout.write(`\n${passed} passed, ${failed} failed, ${skipped} skipped\n`)
    })
  }
}
