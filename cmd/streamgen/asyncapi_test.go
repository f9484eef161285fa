package main

import (
	"encoding/json"
	"log"
	"os"
	"strings"
)

// jsonPart FILE POINTER... prints the values that the JSON pointers lead to.
func jsonPart() {
	for _, pointer := range os.Args[2:] {
		printJSON(lookUp(os.Args[1], pointer))
	}
}

// goSchemas FILE prints the components that come from Go types.
func goSchemas() {
	all := lookUp(os.Args[1], "/components/schemas").(map[string]any)
	delete(all, "headers")
	printJSON(all)
}

func lookUp(file, pointer string) any {
	content, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(content, &value); err != nil {
		log.Fatal(err)
	}
	for _, key := range strings.Split(pointer, "/")[1:] {
		object, _ := value.(map[string]any)
		part, ok := object[key]
		if !ok {
			log.Fatalf("%s: nothing at %s", file, pointer)
		}
		value = part
	}
	return value
}

func printJSON(value any) {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		log.Fatal(err)
	}
}
