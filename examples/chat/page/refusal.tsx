/** Why something a person did was refused, said once, near where it is done; the rows have rolled back by then. */
import { createContext, useCallback, useContext, useMemo, useState } from 'react'
import type { SessionAction } from 'electric-ai-db/client'

interface Refusals {
  refusal: string | undefined
  /** Takes an action's outcome: clears what was said, and says why if it is refused. Resolves with whether it was done. */
  attempt: (action: SessionAction) => Promise<boolean>
}

const RefusalContext = createContext<Refusals>({
  refusal: undefined,
  attempt: () => Promise.resolve(false),
})

export const useRefusal = () => useContext(RefusalContext)

export function RefusalProvider({ children }: { children: React.ReactNode }) {
  const [refusal, setRefusal] = useState<string>()
  const attempt = useCallback(async (action: SessionAction) => {
    setRefusal(undefined)
    try {
      await action.isPersisted.promise
      return true
    } catch (thrown) {
      setRefusal(thrown instanceof Error ? thrown.message : String(thrown))
      return false
    }
  }, [])
  const value = useMemo(() => ({ refusal, attempt }), [refusal, attempt])
  return <RefusalContext value={value}>{children}</RefusalContext>
}
