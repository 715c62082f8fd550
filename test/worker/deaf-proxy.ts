/** What a transaction pooler does to LISTEN: a proxy before Postgres that drops every notification, and nothing else. */
import { createServer, connect, type AddressInfo, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

const NOTIFICATION_RESPONSE = 0x41 // 'A'

/** @returns the database's URL by way of the proxy. */
export async function startDeafProxy(databaseUrl: string): Promise<string> {
  const { hostname, port } = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  const proxy = createServer((client) => {
    const server = connect(Number(port), hostname)
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.on('error', () => (client.destroy(), server.destroy()))
      socket.on('close', () => (client.destroy(), server.destroy(), sockets.delete(socket)))
    }
    client.pipe(server)
    let rest = Buffer.alloc(0)
    server.on('data', (bytes: Buffer) => {
      rest = Buffer.concat([rest, bytes])
      // A message: its type, then its length, which counts itself.
      while (rest.length >= 5 && rest.length >= 1 + rest.readUInt32BE(1)) {
        const end = 1 + rest.readUInt32BE(1)
        if (rest[0] !== NOTIFICATION_RESPONSE) client.write(rest.subarray(0, end))
        rest = rest.subarray(end)
      }
    })
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => proxy.close(resolve))
  })
  const url = new URL(databaseUrl)
  url.port = String((proxy.address() as AddressInfo).port)
  return url.toString()
}
