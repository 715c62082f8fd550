/** What the page is told by its server, and where that is. */

/** Where web-server.ts mounts the library's handler. */
export const API_URL = '/api'

/** Who this browser is to the others in a chat. The secret behind it is in a cookie no script can read. */
export const ACTOR = document.querySelector<HTMLMetaElement>('meta[name="actor"]')?.content || 'me'

/** How a person is called on the page: nobody signs in here. */
export function nameOf(actorId: string): string {
  return actorId === ACTOR ? 'You' : `Guest ${actorId.slice(-4)}`
}
