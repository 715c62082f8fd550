/** The webhook adapter conforms: real wakes of the real stream server, with the lease in real Postgres. */
import { randomUUID } from 'node:crypto'
import { beforeAll, describe, test } from 'vitest'
import { postgresLifecycle } from '../../src/runner/postgres-lifecycle.js'
import { durableStreamsWebhookAdapter } from '../../src/streams/webhook-adapter.js'
import { ensureSubscription } from '../../src/streams/webhook-subscription.js'
import { parseDurableStreamsWake, type DurableStreamsWake } from '../../src/streams/webhook-wake.js'
import { lifecycleConformance } from '../../src/testing/lifecycle-conformance.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { startEndpoint, startStreamServer, type StreamServer } from './webhook-world.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

describe('durableStreamsWebhookAdapter over postgresLifecycle conforms', () => {
  let streams: StreamServer
  const lifecycle = () => postgresLifecycle({ db: database.db })
  const harness = {
    createAdapter: () =>
      durableStreamsWebhookAdapter({ streamsUrl: streams.url, lifecycle: lifecycle() }),
    async createWake(): Promise<DurableStreamsWake> {
      const answer = async () => new Response('{}', { status: 202 })
      const { url: webhookUrl, deliveries } = await startEndpoint(answer)
      const id = `sessions/${randomUUID()}`
      await streams.create(id)
      await ensureSubscription({ streamsUrl: streams.url, id, streams: [id], webhookUrl })
      await streams.append(id, { n: 0 })
      const { body } = await deliveries.until('a wake', () => true)
      return parseDurableStreamsWake(JSON.parse(body))
    },
    async takeOver({ subscriptionId }: DurableStreamsWake) {
      await database.sql`
        update ai_db.checkpoints set lease_expires_at = 'epoch' where runner_id = ${subscriptionId} and source = ''`
      const { signal } = new AbortController()
      await lifecycle().claimWake({ runnerId: subscriptionId }, { signal })
    },
    async checkpoints({ subscriptionId: source }: DurableStreamsWake, count: number) {
      const checkpoints = []
      for (let n = 0; n < count; n += 1) {
        await streams.append(source, { n })
        checkpoints.push({ source, cursor: await streams.tail(source) })
      }
      return checkpoints
    },
  }
  for (const { name, run } of lifecycleConformance<DurableStreamsWake>(harness)) {
    test(name, async () => {
      streams = await startStreamServer()
      await run()
    })
  }
})
