/** Vitest's globalSetup: one stack for all test files, whose URLs they get by `inject`. */
import type { TestProject } from 'vitest/node'
import { startTestStack } from './stack.js'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stack = await startTestStack()
  project.provide('databaseUrl', stack.databaseUrl)
  project.provide('streamsUrl', stack.streamsUrl)
  return stack.stop
}
