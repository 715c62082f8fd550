/**
 * One stack for the whole run (test/support/global-setup.ts); a database of its own per test file.
 * `maxWorkers: 2` because Postgres and the streams server need a core as well.
 */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: ['default', './test/support/closing-line-reporter.ts'],
  },
})
