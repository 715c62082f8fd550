/**
 * Who a browser is, without a login: a random secret in a cookie that no script can read. Tabs of a browser
 * share it, two browsers are two people. Its hash is the actor's id, which others in a chat get to see; the
 * secret is not to be had from it.
 */
import { createHash, randomBytes } from 'node:crypto'

const NAME = 'chat-demo-actor'
const SECRET = /^[\w-]{32}$/
const MAX_AGE_S = 60 * 60 * 24 * 365

/** Undefined: no cookie, or not one of ours. */
export function actorOf(request: Request): string | undefined {
  const secret = readSecret(request)
  return secret === undefined ? undefined : actorFrom(secret)
}

/** The browser's actor; a new one, with the cookie to set, on its first visit. */
export function actorOrNew(request: Request): { actor: string; setCookie?: string } {
  const known = actorOf(request)
  if (known !== undefined) return { actor: known }
  const secret = randomBytes(24).toString('base64url')
  // Lax: a page of another site can send nothing in this person's name.
  const setCookie = `${NAME}=${secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${MAX_AGE_S}`
  return { actor: actorFrom(secret), setCookie }
}

function readSecret(request: Request): string | undefined {
  const cookies = (request.headers.get('cookie') ?? '').split(/;\s*/)
  const secret = cookies.find((cookie) => cookie.startsWith(`${NAME}=`))?.slice(NAME.length + 1)
  return secret !== undefined && SECRET.test(secret) ? secret : undefined
}

function actorFrom(secret: string): string {
  return `guest-${createHash('sha256').update(secret).digest('hex').slice(0, 16)}`
}
