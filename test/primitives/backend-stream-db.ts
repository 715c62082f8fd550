/**
 * Durable Streams' StreamDB: rows are events of one stream. Its collections have no handlers: every write is an action
 * that appends the event and waits until its txid comes back on the stream. The claim is the creation of a stream,
 * which one of many requests does.
 */
import { DurableStream } from '@durable-streams/client'
import { createStateSchema } from '@durable-streams/state'
import { createStreamDB } from '@durable-streams/state/db'
import { createOptimisticAction, type Collection } from '@tanstack/db'
import { inject, onTestFinished } from 'vitest'
import { z } from 'zod'
import { Gate, REFUSED, type Backend, type Device, type Tables } from './backend-world.js'

const id = z.string().refine((value) => value !== REFUSED, 'the backend refuses this row')

const state = createStateSchema({
  calls: {
    type: 'call',
    primaryKey: 'id',
    schema: z.looseObject({
      ...{ id, requestId: z.string(), name: z.string(), args: z.unknown(), status: z.string() },
      ...{ result: z.unknown(), error: z.string().nullable() },
    }),
  },
  requests: {
    type: 'request',
    primaryKey: 'id',
    schema: z.looseObject({
      ...{ id, prompt: z.string(), status: z.string(), response: z.string().nullable() },
    }),
  },
  chunks: {
    type: 'chunk',
    primaryKey: 'id',
    schema: z.looseObject({
      ...{ id, generationId: z.string(), index: z.number(), type: z.string() },
      ...{ content: z.string(), isFinal: z.boolean() },
    }),
  },
})

type Row = { id: string }
interface Write {
  table: keyof Tables
  operation: 'insert' | 'update'
  row: Row
}

export async function streamDbBackend(): Promise<Backend> {
  const base = `${inject('streamsUrl')}/v1/stream/backends/${crypto.randomUUID()}`
  const url = `${base}/state`
  await DurableStream.create({ url, contentType: 'application/json' })
  const gate = new Gate()
  return {
    open: () => openDevice(url, gate),
    tellsUnconfirmed: true,
    hold: () => gate.hold(),
    async claim(row) {
      const answer = await fetch(`${base}/claims/${row.id}`, { method: 'PUT' })
      return answer.status === 201 && { attempt: 1 }
    },
  }
}

async function openDevice(url: string, gate: Gate): Promise<Device> {
  const stream = new DurableStream({ url, contentType: 'application/json' })
  const db = createStreamDB({ stream, state })
  onTestFinished(() => db.close())
  await db.preload()
  const collections = db.collections as unknown as Device['collections']
  const of = (table: keyof Tables) => collections[table] as unknown as Collection<Row, string>
  const write = createOptimisticAction<Write>({
    onMutate({ table, operation, row }) {
      if (operation === 'insert') of(table).insert(row)
      else of(table).update(row.id, (draft) => void Object.assign(draft, row))
    },
    async mutationFn({ table, operation, row }) {
      const txid = crypto.randomUUID()
      const helper = state[table][operation] as (event: object) => unknown
      const event = helper({ value: row, key: row.id, headers: { txid } })
      await gate.pass()
      await stream.append(JSON.stringify(event))
      await db.utils.awaitTxId(txid)
    },
  })
  const update = (table: keyof Tables, key: string, changes: object) => {
    const row = { ...of(table).get(key), ...changes, id: key }
    return write({ table, operation: 'update', row })
  }
  return {
    collections,
    async insert(table, row) {
      await write({ table, operation: 'insert', row }).isPersisted.promise
    },
    async update(table, key, changes) {
      await update(table, key, changes).isPersisted.promise
    },
    insertOption: (table) => ({ insert: (row) => write({ table, operation: 'insert', row }) }),
    cancelOption: () => ({ cancel: (row) => update('calls', row.id, { status: 'cancelled' }) }),
  }
}
