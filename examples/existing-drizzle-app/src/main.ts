/**
 * A customer, their conversation and its first message in one transaction; then all of it by joins.
 * With the message comes its generation: work for whichever worker serves the agent.
 */
import { eq } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/postgres-js'
import { createSession, sendMessage } from 'electric-ai-db/server'
import { customers, generations, messages, sessions } from './schema.js'

const db = drizzle(process.env.DATABASE_URL!)

async function signUp(name: string, question: string): Promise<number> {
  return db.transaction(async (tx) => {
    const session = await createSession(tx, { title: `Support for ${name}` })
    await sendMessage(tx, { sessionId: session.id, content: question, actorId: name })
    const [customer] = await tx
      .insert(customers)
      .values({ name, sessionId: session.id })
      .returning({ id: customers.id })
    return customer!.id
  })
}

function conversation(customerId: number) {
  return db
    .select({
      customer: customers.name,
      session: sessions.title,
      said: messages.content,
      generation: generations.status,
    })
    .from(customers)
    .innerJoin(sessions, eq(sessions.id, customers.sessionId))
    .innerJoin(messages, eq(messages.sessionId, sessions.id))
    .innerJoin(generations, eq(generations.sessionId, sessions.id))
    .where(eq(customers.id, customerId))
}

const customerId = await signUp('Ann', 'Where is my parcel?')
console.log(JSON.stringify(await conversation(customerId)))
await db.$client.end()
