package diag

import (
	"encoding/json"
	"go/token"
	"path/filepath"
)

// MarshalJSON writes the finding for programs:
//
//	{
//	  "code": "S103", "file": "a/a.go", "line": 5, "column": 30, "endLine": 5, "endColumn": 35,
//	  "message": "unknown key \"steam\"", "suggestion": "stream",
//	  "related": [{"file": …, "line": …, "column": …, "message": …}],
//	  "fixes": [{"message": …, "edits": [
//	    {"file": …, "line": …, "column": …, "offset": …, "endLine": …, "endColumn": …, "endOffset": …, "text": …}]}]
//	}
//
// Files have forward slashes on every system; columns and offsets count bytes, columns from 1 and offsets from 0. The
// end, suggestion, related and fixes are left out where there are none.
func (d Diagnostic) MarshalJSON() ([]byte, error) {
	out := jsonFinding{
		Code:      d.Code,
		jsonPlace: placeJSON(d.Pos),
		EndLine:   d.End.Line, EndColumn: d.End.Column,
		Message: d.Message, Suggestion: d.Suggest,
	}
	for _, r := range d.Related {
		out.Related = append(out.Related, jsonRelated{placeJSON(r.Pos), r.Message})
	}
	for _, f := range d.Fixes {
		fix := jsonFix{Message: f.Message}
		for _, e := range f.Edits {
			fix.Edits = append(fix.Edits, jsonEdit{
				jsonPlace: placeJSON(e.Pos), Offset: e.Pos.Offset,
				EndLine: e.End.Line, EndColumn: e.End.Column, EndOffset: e.End.Offset,
				Text: e.New,
			})
		}
		out.Fixes = append(out.Fixes, fix)
	}
	return json.Marshal(out)
}

type jsonPlace struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

func placeJSON(p token.Position) jsonPlace {
	return jsonPlace{filepath.ToSlash(p.Filename), p.Line, p.Column}
}

type jsonFinding struct {
	Code Code `json:"code"`
	jsonPlace
	EndLine    int           `json:"endLine,omitzero"`
	EndColumn  int           `json:"endColumn,omitzero"`
	Message    string        `json:"message"`
	Suggestion string        `json:"suggestion,omitzero"`
	Related    []jsonRelated `json:"related,omitempty"`
	Fixes      []jsonFix     `json:"fixes,omitempty"`
}

type jsonRelated struct {
	jsonPlace
	Message string `json:"message"`
}

type jsonFix struct {
	Message string     `json:"message"`
	Edits   []jsonEdit `json:"edits"`
}

type jsonEdit struct {
	jsonPlace
	Offset    int    `json:"offset"`
	EndLine   int    `json:"endLine"`
	EndColumn int    `json:"endColumn"`
	EndOffset int    `json:"endOffset"`
	Text      string `json:"text"`
}
