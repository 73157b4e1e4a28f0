; Each statement, and each graph pattern.
[
  (use) (timeline) (signal) (label) (rule) (template) (infer) (range) (predict) (set) (cause)
  (example) (group)
] @fold
