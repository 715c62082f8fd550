/** The page's few icons, drawn in the colour of the text beside them. They never speak: labels do. */

const PATHS = {
  menu: 'M4 7h16M4 12h16M4 17h16',
  plus: 'M12 5v14M5 12h14',
  pencil: 'M4 20h4L19 9l-4-4L4 16v4M13.5 6.5l4 4',
  trash: 'M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12M10.5 11v5M13.5 11v5',
  link: 'M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 0 0 13 5.300l-1 1M14 10a4 4 0 0 0-5.700 0l-3 3a4 4 0 0 0 5.700 5.700l1-1',
  copy: 'M9 9h10v10H9zM5 15V5h10',
  sun: 'M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8M12 3v2M12 19v2M3 12h2M19 12h2M5.600 5.600 7 7M17 17l1.400 1.400M5.600 18.400 7 17M17 7l1.400-1.400',
  moon: 'M19.500 14.500A8 8 0 0 1 9.500 4.500a8 8 0 1 0 10 10',
  send: 'M12 19V6M6 11.500 12 5.500l6 6',
  stop: 'M6.500 6.500h11v11h-11z',
  retry: 'M19 12a7 7 0 1 1-2.200-5.100M19 4v4h-4',
  check: 'M5 12.500 10 17.500 19 7',
  cross: 'M6 6l12 12M18 6 6 18',
  rows: 'M4 5h16v14H4zM4 10h16M4 14.500h16M9.500 10v9',
  chevron: 'M9 6l6 6-6 6',
  down: 'M12 5v13M6 12.500l6 6 6-6',
  clock: 'M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16M12 8v4.500l3 2',
  hand: 'M12 4 20.500 19h-17zM12 10v4M12 16.500v.5',
} as const

export type IconName = keyof typeof PATHS

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  )
}
