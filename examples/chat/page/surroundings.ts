/** What the page is told by its server, and where that is. */

/** Where web-server.ts mounts the library's handler. */
export const API_URL = '/api'

/** Who this browser is to the others in a chat. The secret behind it is in a cookie no script can read. */
export const ACTOR = document.querySelector<HTMLMetaElement>('meta[name="actor"]')?.content || 'me'

/** How an actor is called on the page. Nobody signs in here, so people have no names; agents have. */
export function nameOf(actorId: string): string {
  if (actorId === ACTOR) return 'You'
  return actorId.startsWith('guest-') ? `Guest ${actorId.slice(-4)}` : actorId
}
