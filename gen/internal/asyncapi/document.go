// Package asyncapi turns the model into an AsyncAPI 3.0 document: one channel for each source, one receive operation for
// each subscription, and the schemas of what the handlers take. The same model always gives the same bytes.
package asyncapi

import (
	"bytes"
	"encoding/json"
)

// document is the root object. What the specification lets be absent and is never needed here is left out.
type document struct {
	AsyncAPI           string                `json:"asyncapi"`
	Info               Info                  `json:"info"`
	DefaultContentType string                `json:"defaultContentType"`
	Channels           map[string]*channel   `json:"channels"`
	Operations         map[string]*operation `json:"operations"`
	Components         components            `json:"components"`
}

// Info is what the source does not say of itself.
type Info struct {
	// Title is by default the import path that all packages have in common.
	Title string `json:"title"`
	// Version is that of the service, by default 0.0.0.
	Version string `json:"version"`
}

type channel struct {
	// Address is nil where the key is none by the rules of the specification.
	Address     *string              `json:"address"`
	Title       string               `json:"title"`
	Description string               `json:"description,omitempty"`
	Parameters  map[string]parameter `json:"parameters,omitempty"`
	Messages    map[string]*message  `json:"messages"`
	Extension   source               `json:"x-millrace"`
}

type parameter struct {
	Enum        []string `json:"enum"`
	Default     string   `json:"default"`
	Description string   `json:"description"`
}

// source is the extension of a channel.
type source struct {
	Structure string `json:"structure"`
	Key       string `json:"key"`
	Sharded   bool   `json:"sharded,omitempty"`
}

type message struct {
	Name        string  `json:"name"`
	ContentType string  `json:"contentType"`
	Headers     *Schema `json:"headers,omitempty"`
	Payload     *Schema `json:"payload"`
}

type operation struct {
	Action      string       `json:"action"`
	Channel     reference    `json:"channel"`
	Title       string       `json:"title"`
	Summary     string       `json:"summary,omitempty"`
	Description string       `json:"description,omitempty"`
	Messages    []reference  `json:"messages"`
	Extension   subscription `json:"x-millrace"`
}

type reference struct {
	Ref string `json:"$ref"`
}

// subscription is the extension of an operation: what the directive says, in its own words, and where it stands.
type subscription struct {
	// Handler is import/path.Func or import/path.Type.Method, Variable what is mounted.
	Handler  string `json:"handler"`
	Variable string `json:"variable"`
	// Directive is import/path/file.go:line:column, which is the same in every checkout.
	Directive string `json:"directive"`
	Name      string `json:"name"`
	Structure string `json:"structure"`
	Group     string `json:"group,omitempty"`
	Claim     string `json:"claim,omitempty"`
	Reclaim   string `json:"reclaim,omitempty"`
	Start     string `json:"start,omitempty"`
	DelaySet  string `json:"delay-set,omitempty"`
	DelayTTL  string `json:"delay-ttl,omitempty"`
	Task      string `json:"task,omitempty"`
	Foreign   bool   `json:"foreign,omitempty"`
	Reliable  bool   `json:"reliable,omitempty"`
	Sharded   bool   `json:"sharded,omitempty"`
	Codec     string `json:"codec,omitempty"`
	Block     string `json:"block,omitempty"`
	Timeout   string `json:"timeout,omitempty"`
}

type components struct {
	Schemas map[string]*Schema `json:"schemas"`
}

func (d *document) encode() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(d)
	return out.Bytes(), err
}
