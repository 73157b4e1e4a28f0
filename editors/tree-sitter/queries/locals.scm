; Names belong to the whole file.
(source_file) @local.scope
(signal (head (name) @local.definition.var))
(label name: (name) @local.definition.var)
(constant name: (name) @local.definition.constant)
(template name: (name) @local.definition.function)
(reference (name) @local.reference)
(follows (call function: (name) @local.reference))
