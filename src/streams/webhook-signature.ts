/**
 * Is a webhook from our Durable Streams server, and from now? The header
 * `Webhook-Signature: t=<unix seconds>,kid=<key>,ed25519=<base64url>` signs `<t>.<raw body>` with a key of the
 * server's JWKS.
 *
 * Against replay: a time further off than the tolerance is refused, and within it the same signature is taken once
 * by one process. Two processes may each take it once: there the claim decides, which a wake that is over cannot win.
 * A server that retries within the same second signs the same bytes: it is refused that time, and retries again.
 */
import { AiDbError } from '../errors.js'
import { createKeyCache } from './webhook-keys.js'

export interface WebhookVerifierOptions {
  /** `<server>/v1/stream/__ds/jwks.json`. From your configuration, never from a request. */
  jwksUrl: string
  /** How far the server's clock may be off, in ms; also how long a signature is remembered. @default 300000 */
  toleranceMs?: number
  /** Keys are fetched anew after so many ms. @default 600000 */
  cacheMs?: number
  /** An unknown key has the keys fetched anew at most every so many ms. @default 5000 */
  refreshMs?: number
  fetch?: typeof fetch
}

/** @throws AiDbError UNAUTHENTICATED; UPSTREAM_FAILED when the keys could not be had. */
export type VerifyWebhook = (header: string | null, body: string) => Promise<void>

const SIGNATURE = /^t=(\d{1,12}),kid=([^,]{1,200}),ed25519=([A-Za-z0-9_-]{1,200})$/

export function createWebhookVerifier(options: WebhookVerifierOptions): VerifyWebhook {
  const { toleranceMs = 300_000 } = options
  const keys = createKeyCache(options)
  const seen = new Map<string, number>()
  return async (header, body) => {
    const [, time, kid, signature] = SIGNATURE.exec(header ?? '') ?? []
    if (!time || !kid || !signature)
      throw refused('has no signature, or not one of the form t=…,kid=…,ed25519=…')
    const signedAt = Number(time) * 1_000
    if (Math.abs(Date.now() - signedAt) > toleranceMs) {
      throw refused(`was signed at ${time}, too far from this clock`)
    }
    const key = await keys.find(kid)
    if (!key) throw refused(`was signed with the key ${kid}, which the server does not list`)
    const bytes = new TextEncoder().encode(`${time}.${body}`)
    const genuine = await crypto.subtle.verify('Ed25519', key, fromBase64Url(signature), bytes)
    if (!genuine) throw refused('carries a signature of something else')
    forgetBefore(seen, Date.now() - toleranceMs)
    if (seen.has(signature)) throw refused('was seen before')
    seen.set(signature, signedAt)
  }
}

/** Oldest first, nearly: a map keeps the order of arrival. */
function forgetBefore(seen: Map<string, number>, time: number): void {
  for (const [signature, signedAt] of seen) {
    if (signedAt >= time) return
    seen.delete(signature)
  }
}

function fromBase64Url(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(binary, (char) => char.charCodeAt(0))
}

const refused = (why: string) =>
  new AiDbError(
    'UNAUTHENTICATED',
    `The webhook ${why}. Check that jwksUrl is that of the server whose subscription calls, and both clocks.`,
    { field: 'Webhook-Signature' },
  )
