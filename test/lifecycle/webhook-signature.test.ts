/** Webhook signatures: Ed25519 over WebCrypto, with the keys of a real HTTP endpoint. */
import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import { createServer } from 'node:http'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  createWebhookVerifier,
  type WebhookVerifierOptions,
} from '../../src/streams/webhook-signature.js'
import { listen } from './webhook-world.js'

interface Key {
  kid: string
  privateKey: KeyObject
  jwk: object
}

function newKey(kid: string): Key {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'EdDSA' }
  return { kid, privateKey, jwk }
}

/** A server of keys, which can change them and fail; it counts how often it was asked. */
async function keyServer(...keys: Key[]) {
  const state = { keys, asked: 0, status: 200 }
  const server = createServer((_request, response) => {
    state.asked += 1
    response.writeHead(state.status, { 'content-type': 'application/jwk-set+json' })
    const others = [{ kty: 'RSA', kid: 'rsa', n: 'x', e: 'AQAB' }, null]
    response.end(JSON.stringify({ keys: [...others, ...state.keys.map((key) => key.jwk)] }))
  })
  const jwksUrl = await listen(server)
  return {
    state,
    verifier: (options: Partial<WebhookVerifierOptions> = {}) =>
      createWebhookVerifier({ jwksUrl, ...options }),
  }
}

const now = () => Math.floor(Date.now() / 1_000)

function header(key: Key, body: string, time = now()): string {
  const signature = sign(null, Buffer.from(`${time}.${body}`), key.privateKey)
  return `t=${time},kid=${key.kid},ed25519=${signature.toString('base64url')}`
}

const refused = { code: 'UNAUTHENTICATED', field: 'Webhook-Signature' }

afterEach(() => void vi.useRealTimers())

describe('a webhook', () => {
  it('that the server signed just now is accepted, whatever is in it', async () => {
    const key = newKey('k1')
    const { verifier } = await keyServer(key)
    const verify = verifier()
    for (const body of ['', '{"a":1}', 'ünï 😀', '.'.repeat(100_000)]) {
      await verify(header(key, body), body)
    }
  })

  it.each([
    ['without a signature', () => null],
    ['with a header of another form', () => 'v1=abc'],
    ['of another body', (key: Key) => header(key, 'other')],
    ['by another key of the same id', () => header(newKey('k1'), 'body')],
    ['by a key the server does not list', () => header(newKey('k2'), 'body')],
    ['from ten minutes ago', (key: Key) => header(key, 'body', now() - 600)],
    ['from ten minutes ahead', (key: Key) => header(key, 'body', now() + 600)],
    [
      'whose time was changed',
      (key: Key) => header(key, 'body').replace(/t=\d+/, `t=${now() - 1}`),
    ],
    ['whose signature is cut', (key: Key) => header(key, 'body').slice(0, -4)],
  ] as const)('%s is refused', async (_name, make) => {
    const key = newKey('k1')
    const { verifier } = await keyServer(key)
    await expect(verifier()(make(key), 'body')).rejects.toMatchObject(refused)
  })

  it('is taken once', async () => {
    const key = newKey('k1')
    const { verifier } = await keyServer(key)
    const verify = verifier()
    const signed = header(key, 'body')
    await verify(signed, 'body')
    await expect(verify(signed, 'body')).rejects.toMatchObject(refused)
    // The server's next try is signed anew.
    await verify(header(key, 'body', now() + 1), 'body')
  })

  it('may be as old as the tolerance says, no older', async () => {
    const key = newKey('k1')
    const { verifier } = await keyServer(key)
    const verify = verifier({ toleranceMs: 10_000 })
    await verify(header(key, 'body', now() - 8), 'body')
    await expect(verify(header(key, 'body', now() - 12), 'body')).rejects.toMatchObject(refused)
  })
})

describe('the keys', () => {
  it('are fetched once for many webhooks, also for many at once', async () => {
    const key = newKey('k1')
    const { verifier, state } = await keyServer(key)
    const verify = verifier()
    const bodies = Array.from({ length: 20 }, (_, n) => String(n))
    await Promise.all(bodies.map((body) => verify(header(key, body), body)))
    expect(state.asked).toBe(1)
  })

  it('of a server that restarted are fetched when one is not known', async () => {
    const [before, after] = [newKey('before'), newKey('after')]
    const { verifier, state } = await keyServer(before)
    const verify = verifier({ refreshMs: 0 })
    await verify(header(before, 'a'), 'a')
    state.keys = [after]
    await verify(header(after, 'b'), 'b')
    await expect(verify(header(before, 'c'), 'c')).rejects.toMatchObject(refused)
  })

  it('are not fetched for each forged id', async () => {
    const key = newKey('k1')
    const { verifier, state } = await keyServer(key)
    const verify = verifier({ refreshMs: 60_000 })
    for (let n = 0; n < 20; n += 1) {
      await expect(verify(header(newKey(`forged${n}`), 'b'), 'b')).rejects.toMatchObject(refused)
    }
    expect(state.asked).toBe(1)
    await verify(header(key, 'b'), 'b')
  })

  it('that cannot be had are the server’s failure, and asked for again', async () => {
    const key = newKey('k1')
    const { verifier, state } = await keyServer(key)
    const verify = verifier()
    state.status = 500
    await expect(verify(header(key, 'b'), 'b')).rejects.toMatchObject({ code: 'UPSTREAM_FAILED' })
    state.status = 200
    await verify(header(key, 'b'), 'b')
  })

  it('that grew old are fetched anew', async () => {
    const key = newKey('k1')
    const { verifier, state } = await keyServer(key)
    const verify = verifier({ cacheMs: 0 })
    await verify(header(key, 'a'), 'a')
    await verify(header(key, 'b'), 'b')
    expect(state.asked).toBe(2)
  })
})
