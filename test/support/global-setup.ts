/**
 * Vitest's globalSetup: one stack for all test files, whose URLs they get by `inject`. Embedded, unless the
 * environment names services or asks for containers; then the environment of the test processes names them.
 */
import type { TestProject } from 'vitest/node'
import { startContainers, wantsContainers } from './containers.js'
import { startTestStack } from './stack.js'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const containers = wantsContainers ? await startContainers() : undefined
  // Test processes are forked after this and inherit it.
  if (containers) Object.assign(process.env, containers.services)
  const stack = await startTestStack().catch(async (thrown: unknown) => {
    await containers?.stop()
    throw thrown
  })
  project.provide('databaseUrl', stack.databaseUrl)
  project.provide('streamsUrl', stack.streamsUrl)
  project.provide('electricUrl', stack.electricUrl)
  return async () => {
    await stack.stop()
    await containers?.stop()
  }
}
