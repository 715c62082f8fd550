/**
 * Which port a service of the stack listens on. A port the caller names is taken or refused, never
 * replaced. Without one, the port of the last run in this data directory is tried first, so that
 * URLs in a shell or a psql history stay good, and any free one after that.
 *
 * What this is not: a reservation. Between the probe and the service's own bind somebody else may
 * take the port, so services also map their own "address in use" to the same error.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { devStackError, systemCode } from './dev-stack-error.js'

export const HOST = '127.0.0.1'

export interface PortWish {
  /** What listens there, as a person would say it: 'Postgres'. */
  service: string
  /** The option and the flag by which the caller can choose another: 'postgresPort (--port)'. */
  option: string
  /** 0 or undefined leaves the choice to us. */
  port: number | undefined
  /** The port of the last run, if known. */
  remembered: number | undefined
}

/** A port that was free a moment ago; throws when the caller's own choice was not. */
export async function choosePort(wish: PortWish): Promise<number> {
  if (wish.port) {
    const refusal = await refusalToListen(wish.port)
    if (refusal !== undefined) throw portError(wish, wish.port, refusal)
    return wish.port
  }
  const { remembered } = wish
  if (remembered !== undefined && (await refusalToListen(remembered)) === undefined) {
    return remembered
  }
  return freePort()
}

export function portError(wish: Pick<PortWish, 'service' | 'option'>, port: number, why: unknown) {
  const taken = systemCode(why) !== 'EACCES'
  const problem = taken ? 'is in use by another program' : 'may not be opened by this user'
  return devStackError(
    `${wish.service} cannot listen on ${HOST}:${port}: the port ${problem}. ` +
      `Free port ${port}, or choose another with ${wish.option}; 0 takes any free one.`,
    why,
  )
}

export type RememberedPorts = Partial<Record<'postgres' | 'streams' | 'sync', number>>

const PORTS_FILE = 'ports.json'

export async function rememberedPorts(dataDir: string): Promise<RememberedPorts> {
  try {
    return JSON.parse(await readFile(join(dataDir, PORTS_FILE), 'utf8')) as RememberedPorts
  } catch {
    return {} // Absent or cut short by a kill: a remembered port is a comfort, not a promise.
  }
}

export async function rememberPorts(dataDir: string, ports: RememberedPorts): Promise<void> {
  const all = { ...(await rememberedPorts(dataDir)), ...ports }
  await writeFile(join(dataDir, PORTS_FILE), JSON.stringify(all))
}

function refusalToListen(port: number): Promise<unknown> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', resolve)
    probe.listen(port, HOST, () => probe.close(() => resolve(undefined)))
  })
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, HOST, () => {
      const address = probe.address()
      const port = typeof address === 'object' && address !== null ? address.port : 0
      probe.close(() => resolve(port))
    })
  })
}
