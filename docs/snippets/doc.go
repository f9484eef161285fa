// Package snippets holds code that the guides show and the example service does not have. It is compiled, generated for
// and tested as any service's package is.
package snippets
