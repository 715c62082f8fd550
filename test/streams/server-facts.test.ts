/** The facts about the stream server that writer and reader rest on. A server of its own proves itself here. */
import { expect, test } from 'vitest'
import { PATH, startStreams } from './stream-world.js'

const json = { 'content-type': 'application/json' }

async function setUp() {
  const { url, server } = await startStreams()
  const call = async (method: string, headers: Record<string, string> = {}, body?: string) => {
    const init = { method, headers: { ...json, ...headers } }
    return fetch(url + PATH, body === undefined ? init : { ...init, body })
  }
  const post = (epoch: number, seq: number, more = {}, body = '[1]') => {
    const producer = { 'Producer-Id': 'g', 'Producer-Epoch': `${epoch}`, 'Producer-Seq': `${seq}` }
    return call('POST', { ...producer, ...more }, body)
  }
  return { call, post, server }
}

test('a producer unknown to the stream begins at any epoch, and at seq 0 only', async () => {
  const { call, post } = await setUp()
  expect((await post(7, 0)).status).toBe(404)
  expect((await call('PUT')).status).toBe(201)
  const gap = await post(7, 3)
  expect([gap.status, gap.headers.get('Producer-Expected-Seq')]).toEqual([409, '0'])
  expect((await post(7, 0)).status).toBe(200)
  expect((await post(8, 1)).status).toBe(400)
  const stale = await post(6, 0)
  expect([stale.status, stale.headers.get('Producer-Epoch')]).toEqual([403, '7'])
  const again = await post(7, 0)
  expect([again.status, again.headers.get('Producer-Seq')]).toEqual([204, '0'])
})

test('PUT takes a body once, and fences nobody', async () => {
  const { call, post, server } = await setUp()
  expect((await call('PUT', {}, '[1,2]')).status).toBe(201)
  expect((await call('PUT', {}, '[3]')).status).toBe(200)
  expect(server.store.read(PATH).messages).toHaveLength(1)
  expect((await post(1, 0)).status).toBe(200)
})

test('one POST appends and closes; repeated it is 204, anything else 409', async () => {
  const { call, post } = await setUp()
  await call('PUT', { 'Stream-TTL': '60' })
  expect((await post(1, 0, { 'Stream-Closed': 'true' })).status).toBe(200)
  expect((await post(1, 0, { 'Stream-Closed': 'true' })).status).toBe(204)
  const late = await post(2, 0)
  expect([late.status, late.headers.get('Stream-Closed')]).toEqual([409, 'true'])
  expect((await call('PUT', { 'Stream-TTL': '60' })).status).toBe(409)
})

test('a path segment is taken as it is written: an encoded slash does not split it', async () => {
  const { call, server } = await setUp()
  await call('PUT')
  expect(server.store.has(PATH)).toBe(true)
  expect(server.store.has(decodeURIComponent(PATH))).toBe(false)
})
