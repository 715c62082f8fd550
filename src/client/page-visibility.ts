/** Whether anybody can see the page. Where there is no page, somebody always can. */

export function pageIsHidden(): boolean {
  return typeof document !== 'undefined' && document.hidden
}

/** @returns the function that ends it. */
export function onVisibilityChange(listener: () => void): () => void {
  if (typeof document === 'undefined') return () => undefined
  document.addEventListener('visibilitychange', listener)
  return () => document.removeEventListener('visibilitychange', listener)
}
