/** Rules for the JavaScript of the pages. TypeScript's checker finds unknown names and unused variables. */

import { createRequire } from "node:module";

const js = createRequire(new URL("../../build/javascript/package.json", import.meta.url))("@eslint/js");

export default [
  js.configs.recommended,
  {
    files: ["host/**/*.js"],
    rules: {
      "no-undef": "off",
      "no-unused-vars": ["error", { args: "after-used", argsIgnorePattern: "^_" }],
      "array-callback-return": "error",
      "consistent-this": "error",
      eqeqeq: "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-wrappers": "error",
      "no-param-reassign": "error",
      "no-self-compare": "error",
      "no-sequences": "error",
      "no-shadow": "error",
      "no-template-curly-in-string": "error",
      "no-throw-literal": "error",
      "no-unmodified-loop-condition": "error",
      "no-useless-return": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      radix: "error",
    },
  },
  {
    // These stand in a page as one classic script, and share its names.
    files: ["host/wattbell/present/pages/*.js"],
    languageOptions: { sourceType: "script" },
    rules: { "no-unused-vars": ["error", { vars: "local", argsIgnorePattern: "^_" }] },
  },
];
