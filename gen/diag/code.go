package diag

import (
	"maps"
	"slices"
)

// Code names one kind of finding. It never changes its meaning: a code that is no longer reported is not given to
// another kind. docs/diagnostics.md has a section for each, with its cause, an example and the fix.
type Code string

// The source as a whole.
const (
	SyntaxError  Code = "S001"
	TypeError    Code = "S002"
	PackageClash Code = "S003"
	ForeignFile  Code = "S004"
)

// The text of a directive.
const (
	NearMiss       Code = "S101"
	UnknownVerb    Code = "S102"
	UnknownKey     Code = "S103"
	MissingValue   Code = "S104"
	RepeatedKey    Code = "S105"
	FlagValue      Code = "S106"
	BadToken       Code = "S107"
	BadQuote       Code = "S108"
	Separator      Code = "S109"
	Note           Code = "S110"
	BadText        Code = "S111"
	BadDuration    Code = "S112"
	BadStart       Code = "S113"
	UnknownCodec   Code = "S114"
	NoStructure    Code = "S115"
	TwoStructures  Code = "S116"
	WrongStructure Code = "S117"
	Contradiction  Code = "S118"
	MissingPartner Code = "S119"
)

// Where a directive stands.
const (
	NotOnFunction   Code = "S201"
	SecondDirective Code = "S202"
	InTest          Code = "S203"
	OutsideBuild    Code = "S204"
	InGenerated     Code = "S205"
)

// The function that it stands on.
const (
	Signature     Code = "S301"
	Generic       Code = "S302"
	NoHandlerName Code = "S303"
	ValueReceiver Code = "S304"
	NameTaken     Code = "S305"
	NameTwice     Code = "S306"
)

// What it takes.
const (
	RawPayload    Code = "S401"
	FieldsPayload Code = "S402"
	LostPayload   Code = "S403"
)

// What stands beside it.
const (
	SharedGroup     Code = "S501"
	SameTask        Code = "S502"
	TaskBesideNone  Code = "S503"
	TasksReadUnlike Code = "S504"
)

var titles = map[Code]string{
	SyntaxError:     "the file does not parse",
	TypeError:       "the signature does not compile",
	PackageClash:    "two packages in one folder",
	ForeignFile:     "a stream_gen.go of somebody else",
	NearMiss:        "a comment that was meant as a directive",
	UnknownVerb:     "an unknown directive",
	UnknownKey:      "an unknown key",
	MissingValue:    "a key without a value",
	RepeatedKey:     "a key given twice",
	FlagValue:       "a flag with a value",
	BadToken:        "a token that is no key=value",
	BadQuote:        "a quote in the wrong place",
	Separator:       "no blank between two keys",
	Note:            "a note behind the directive",
	BadText:         "a value that no key can have",
	BadDuration:     "not a duration, or too short",
	BadStart:        "not a place where a group can begin",
	UnknownCodec:    "an unknown codec",
	NoStructure:     "nothing to read",
	TwoStructures:   "two structures in one directive",
	WrongStructure:  "a key that the structure does not have",
	Contradiction:   "two keys that exclude each other",
	MissingPartner:  "a key that needs another one",
	NotOnFunction:   "a directive that is on no function",
	SecondDirective: "a second directive on one function",
	InTest:          "a directive in a test file",
	OutsideBuild:    "a directive in a file that is not built",
	InGenerated:     "a directive in the generated file",
	Signature:       "a signature that no handler has",
	Generic:         "a handler with type parameters",
	NoHandlerName:   "a function that nobody can name",
	ValueReceiver:   "a receiver that is no pointer",
	NameTaken:       "the variable's name is taken",
	NameTwice:       "two handlers with one variable",
	RawPayload:      "codec=raw on something other than bytes",
	FieldsPayload:   "codec=fields on what flat fields cannot fill",
	LostPayload:     "a payload that the codec would lose",
	SharedGroup:     "two handlers on one stream and group",
	SameTask:        "two handlers for one task",
	TaskBesideNone:  "a handler of one task beside one of all",
	TasksReadUnlike: "handlers of one group that read it differently",
}

// Title says in a few words what findings of this code are about.
func (c Code) Title() string { return titles[c] }

// Codes returns all codes in their order.
func Codes() []Code { return slices.Sorted(maps.Keys(titles)) }
