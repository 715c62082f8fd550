/**
 * The server's public keys, by id. A key that is not known has them fetched anew, for the server makes new keys when it
 * restarts; but not more often than `refreshMs`, so that forged ids cannot make us hammer it.
 */
import { AiDbError } from '../errors.js'

interface KeyCacheOptions {
  jwksUrl: string
  cacheMs?: number
  refreshMs?: number
  fetch?: typeof fetch
}

export interface KeyCache {
  /** @throws AiDbError UPSTREAM_FAILED when there is no usable list of keys. */
  find(kid: string): Promise<CryptoKey | undefined>
}

type Keys = ReadonlyMap<string, CryptoKey>

const ANSWER_WITHIN_MS = 5_000

export function createKeyCache(options: KeyCacheOptions): KeyCache {
  const { cacheMs = 600_000, refreshMs = 5_000 } = options
  let keys: Keys | undefined
  let fetchedAt = -Infinity
  let fetching: Promise<Keys> | undefined
  const refresh = () =>
    (fetching ??= fetchKeys(options)
      .then((fresh) => {
        fetchedAt = performance.now()
        return (keys = fresh)
      })
      .finally(() => (fetching = undefined)))
  return {
    async find(kid) {
      const age = performance.now() - fetchedAt
      const known = keys?.get(kid)
      if (known && age < cacheMs) return known
      if (keys && !known && age < refreshMs) return undefined
      return (await refresh()).get(kid)
    },
  }
}

async function fetchKeys(options: KeyCacheOptions): Promise<Keys> {
  const ask = options.fetch ?? fetch
  try {
    const signal = AbortSignal.timeout(ANSWER_WITHIN_MS)
    const response = await ask(options.jwksUrl, { signal })
    if (!response.ok) throw new Error(`it answered ${response.status}`)
    const { keys } = (await response.json()) as { keys?: unknown }
    const usable = (Array.isArray(keys) ? (keys as JsonWebKey[]) : []).filter(isEd25519)
    return new Map(await Promise.all(usable.map(importKey)))
  } catch (thrown) {
    throw new AiDbError(
      'UPSTREAM_FAILED',
      `The keys of the stream server could not be had from ${options.jwksUrl} (${String(thrown)}). Check jwksUrl and that the server is up.`,
      { field: 'jwksUrl', cause: thrown },
    )
  }
}

type Ed25519Key = { kid: string; x: string }

const isEd25519 = (key: unknown): key is Ed25519Key => {
  const { kty, crv, x, kid } = (key ?? {}) as Record<string, unknown>
  return kty === 'OKP' && crv === 'Ed25519' && typeof x === 'string' && typeof kid === 'string'
}

/** Without `alg`: servers say `EdDSA`, some runtimes accept `Ed25519` only. */
async function importKey({ kid, x }: Ed25519Key): Promise<[string, CryptoKey]> {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x }
  return [kid, await crypto.subtle.importKey('jwk', jwk, { name: 'Ed25519' }, false, ['verify'])]
}
