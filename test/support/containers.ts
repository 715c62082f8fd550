/**
 * The services of docker-compose.yml as the stack of a test run, started and removed by Testcontainers:
 *
 *     TEST_STACK=containers npm test
 *
 * The images are those of production, as that file pins them. What it gives is what DATABASE_URL,
 * ELECTRIC_URL and STREAMS_URL would name, so the suites cannot tell the difference.
 */
import { randomBytes } from 'node:crypto'
import type { StartedDockerComposeEnvironment } from 'testcontainers'

export interface Services {
  DATABASE_URL: string
  ELECTRIC_URL: string
  ELECTRIC_SECRET: string
  STREAMS_URL: string
}

export const wantsContainers = process.env.TEST_STACK === 'containers'

/** Host ports come from the second file, whatever is free. */
const FILES = ['docker-compose.yml', 'test/support/docker-compose.ports.yml']
const SERVICES = { postgres: 5432, electric: 3000, streams: 4437 } as const

export async function startContainers(): Promise<{ services: Services; stop(): Promise<void> }> {
  const { DockerComposeEnvironment, Wait } = await import('testcontainers')
  const password = randomBytes(12).toString('hex')
  const secret = randomBytes(12).toString('hex')
  const compose = new DockerComposeEnvironment('.', FILES)
    .withEnvironment({ POSTGRES_PASSWORD: password, ELECTRIC_SECRET: secret })
    .withWaitStrategy('postgres-1', Wait.forHealthCheck())
    .withWaitStrategy('electric-1', Wait.forHealthCheck())
  const started = await compose.up(Object.keys(SERVICES)).catch((thrown: unknown) => {
    const cure = 'Start Docker, or unset TEST_STACK to run on the embedded stack.'
    throw new Error(`The containers of docker-compose.yml did not start. ${cure}`, {
      cause: thrown,
    })
  })
  const at = (service: keyof typeof SERVICES) => addressOf(started, service)
  return {
    services: {
      DATABASE_URL: `postgresql://ai:${password}@${at('postgres')}/ai`,
      ELECTRIC_URL: `http://${at('electric')}`,
      ELECTRIC_SECRET: secret,
      STREAMS_URL: `http://${at('streams')}`,
    },
    stop: async () => {
      await started.down({ removeVolumes: true })
    },
  }
}

function addressOf(
  started: StartedDockerComposeEnvironment,
  service: keyof typeof SERVICES,
): string {
  const container = started.getContainer(`${service}-1`)
  return `${container.getHost()}:${container.getMappedPort(SERVICES[service])}`
}
