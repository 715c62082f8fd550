/** Keeps a scrolling place at its end while its content grows, as long as the reader has not scrolled away. */
import { useCallback, useEffect, useRef, useState, type RefObject } from 'react'

/** So near counts as the end. */
const NEAR_PX = 48

export function useStayAtEnd(place: RefObject<HTMLElement | null>) {
  const [isAtEnd, setIsAtEnd] = useState(true)
  const follows = useRef(true)

  const toEnd = useCallback(() => {
    const { current } = place
    if (current === null) return
    follows.current = true
    current.scrollTop = current.scrollHeight
  }, [place])

  useEffect(() => {
    const { current } = place
    if (current === null) return
    let lastTop = current.scrollTop
    const onScroll = () => {
      const { scrollTop, scrollHeight, clientHeight } = current
      const near = scrollHeight - scrollTop - clientHeight < NEAR_PX
      // Content that grows puts the end away too, but it never moves the reader up.
      if (near) follows.current = true
      else if (scrollTop < lastTop) follows.current = false
      lastTop = scrollTop
      setIsAtEnd(near || follows.current)
    }
    const onGrowth = () => {
      if (follows.current) current.scrollTop = current.scrollHeight
      onScroll()
    }
    const growth = new ResizeObserver(onGrowth)
    growth.observe(current)
    if (current.firstElementChild) growth.observe(current.firstElementChild)
    current.addEventListener('scroll', onScroll, { passive: true })
    return () => {
      growth.disconnect()
      current.removeEventListener('scroll', onScroll)
    }
  }, [place])

  return { isAtEnd, toEnd }
}
