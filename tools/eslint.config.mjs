import js from "@eslint/js";
import globals from "globals";

const rules = {
  eqeqeq: ["error", "always", { null: "ignore" }],
  "no-unused-vars": "error",
  "no-var": "error",
  "prefer-const": "error",
};

export default [
  js.configs.recommended,
  { rules },
  { files: ["fvbook/**/*.js"], languageOptions: { sourceType: "module", globals: globals.browser } },
  {
    files: ["_ext/**/*.js"],
    languageOptions: { sourceType: "script", globals: { ...globals.browser, MathJax: "readonly" } },
  },
  { files: ["tools/**/*.mjs"], languageOptions: { globals: globals.node } },
];
