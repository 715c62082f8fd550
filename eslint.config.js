/**
 * Lint: what `tsc` and prettier do not say. The layer rules are generated from the one table in
 * test/support/layers.ts, which `test/unit/architecture.test.ts` holds `src/` to as well: lint marks
 * the line in the editor, the test sees the whole graph.
 */
import { createNodeResolver, importX } from 'eslint-plugin-import-x'
import { tsImport } from 'tsx/esm/api'
import tseslint from 'typescript-eslint'

const { forbiddenUnits, layers, restrictions } = await tsImport(
  './test/support/layers.ts',
  import.meta.url,
)

const sources = ['src/**/*.ts', 'src/**/*.tsx']
const units = layers.flatMap((layer) => layer.units)

const layerZones = units
  .filter((unit) => forbiddenUnits(unit).length > 0)
  .map((unit) => ({
    target: `./src/${unit}`,
    from: forbiddenUnits(unit).map((other) => `./src/${other}`),
    message: `${unit} is not above that layer (test/support/layers.ts): imports go down only.`,
  }))

/** For a restricted unit: any package that is not on its list. */
const packageLists = Object.entries(restrictions).map(([unit, { packages }]) => {
  const allowed = ['\\.', ...packages.map((name) => `${name}(/|$)`)].join('|')
  const message = `${unit} may import these packages only: ${packages.join(', ') || 'none'}.`
  return {
    files: [unit.endsWith('/') ? `src/${unit}**` : `src/${unit}`],
    rules: {
      'no-restricted-imports': ['error', { patterns: [{ regex: `^(?!${allowed})`, message }] }],
    },
  }
})

export default tseslint.config(
  {
    ignores: ['**/dist/', '**/node_modules/', 'drizzle/', 'coverage/', '.electric-ai-db/'],
  },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  ...tseslint.configs.recommended,
  {
    files: ['**/*.{ts,tsx,js,mjs}'],
    plugins: { 'import-x': importX },
    settings: {
      'import-x/resolver-next': [
        createNodeResolver({
          extensions: ['.ts', '.tsx', '.mjs', '.js', '.json'],
          extensionAlias: { '.js': ['.ts', '.tsx', '.js'] },
          conditionNames: ['types', 'import', 'default'],
        }),
      ],
      'import-x/parsers': { '@typescript-eslint/parser': ['.ts', '.tsx'] },
    },
    rules: {
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-constant-binary-expression': 'error',
      'no-template-curly-in-string': 'error',
      'no-unreachable-loop': 'error',
      'no-unsafe-finally': 'error',
      'import-x/no-cycle': ['error', { ignoreExternal: true }],
      'import-x/no-duplicates': ['error', { 'prefer-inline': false }],
      'import-x/no-self-import': 'error',
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrorsIgnorePattern: '^_' },
      ],
    },
  },
  {
    files: ['**/*.{ts,tsx}'],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@typescript-eslint/consistent-type-imports': [
        'error',
        { fixStyle: 'separate-type-imports' },
      ],
      '@typescript-eslint/no-import-type-side-effects': 'error',
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/only-throw-error': 'error',
      // A promise returned from inside a try escapes its catch.
      '@typescript-eslint/return-await': ['error', 'error-handling-correctness-only'],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
    },
  },
  {
    files: sources,
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      'max-lines': ['error', { max: 250, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['error', { max: 50, skipBlankLines: true, skipComments: true }],
      'no-console': 'error',
      'import-x/no-restricted-paths': ['error', { zones: layerZones }],
    },
  },
  {
    // A table is one declaration, however many columns it has.
    files: ['src/schema/*.ts'],
    rules: { 'max-lines-per-function': 'off' },
  },
  { files: ['src/cli/**'], rules: { 'no-console': 'off' } },
  {
    // Bundling moves a nested file to another depth: what it finds next to itself in src/ it does not
    // find in dist/. Only files directly in src/ look for the package's files.
    files: ['src/*/**/*.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector:
            'NewExpression[callee.name="URL"] > MetaProperty, NewExpression[callee.name="URL"] MemberExpression > MetaProperty',
          message: 'Look the file up in a file directly in src/ (see tsup.config.ts).',
        },
      ],
    },
  },
  ...packageLists,
  {
    files: ['test/**', 'bench/**', 'examples/**'],
    rules: { '@typescript-eslint/no-explicit-any': 'off' },
  },
)
