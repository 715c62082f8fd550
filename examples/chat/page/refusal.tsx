/** Why something a person did was refused, said once, near where it is done; the rows have rolled back by then. */
import { createContext, useCallback, useContext, useMemo, useState } from 'react'
import type { SessionAction } from 'electric-ai-db/client'

interface Refusals {
  refusal: string | undefined
  /** Takes an action's outcome: clears what was said, and says why if it is refused. */
  attempt: (action: SessionAction) => void
}

const RefusalContext = createContext<Refusals>({ refusal: undefined, attempt: () => {} })

export const useRefusal = () => useContext(RefusalContext)

export function RefusalProvider({ children }: { children: React.ReactNode }) {
  const [refusal, setRefusal] = useState<string>()
  const attempt = useCallback((action: SessionAction) => {
    setRefusal(undefined)
    action.isPersisted.promise.catch((thrown: unknown) => {
      setRefusal(thrown instanceof Error ? thrown.message : String(thrown))
    })
  }, [])
  const value = useMemo(() => ({ refusal, attempt }), [refusal, attempt])
  return <RefusalContext value={value}>{children}</RefusalContext>
}
