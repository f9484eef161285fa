package asyncapi

// headers are the library's own, each of them text on the wire. A message may have any others beside them.
var headers = map[string]*Schema{
	"content-type":  {Type: "string", Description: "The name of the codec that wrote the payload, such as json."},
	"message-id":    {Type: "string", Description: "Given once, and the same through retries, delays, burial and replay."},
	"task":          {Type: "string", Description: "The task that the message is for, where handlers share a stream and group."},
	"retry-count":   {Type: "string", Pattern: natural, Description: "How often handlers have failed with the message."},
	"losses":        {Type: "string", Pattern: natural, Description: "How many owners have vanished with the message in hand."},
	"retry-group":   {Type: "string", Description: "The one group that a copy in the stream is meant for."},
	"history":       {Type: "string", Description: "One line for each failed attempt, the last ten."},
	"unknown-since": {Type: "string", Pattern: natural, Description: "When the task was first not recognised, in milliseconds since 1970."},
	"replays":       {Type: "string", Pattern: natural, Description: "How often the message was replayed from a dead letter."},
	"traceparent":   {Type: "string", Description: "The trace context, by W3C Trace Context."},
	"tracestate":    {Type: "string", Description: "The trace context of vendors, by W3C Trace Context."},
}

// headersName is the component that all messages share. The names of types have a dot, so none is called so.
const headersName = "headers"

// headersOf is the schema of a message's headers: all are optional but the task, where the handler is for one.
func headersOf(task string) *Schema {
	all := &Schema{Ref: "#/components/schemas/" + headersName}
	if task == "" {
		return all
	}
	return &Schema{
		Type: "object", Required: []string{"task"}, Properties: map[string]*Schema{"task": {Type: "string", Const: task}},
		AllOf: []*Schema{all},
	}
}
