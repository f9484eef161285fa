// Package shop has a payload of every kind, and sources with every kind of key.
package shop

import (
	"context"
	"encoding/json"
	"math/big"
	"net/netip"
	"time"
)

// Order has what JSON and CBOR have.
type Order struct {
	Header
	*Gift
	hidden

	ID       uint32            `json:"id"`
	Total    Cents             `json:"total,string"`
	Note     string            `json:"note,omitempty"`
	State    State             `json:"state"`
	Before   *State            `json:"before"`
	Level    Level             `json:"level"`
	Access   Access            `json:"access"`
	Lines    []Line            `json:"lines"`
	Parent   *Order            `json:"parent"`
	Labels   map[string]string `json:"labels"`
	Counts   map[int8]int      `json:"counts,omitzero"`
	ByState  map[State]bool    `json:"byState"`
	Picture  []byte            `json:"picture"`
	Hash     [3]byte           `json:"hash"`
	Pair     [2]float64        `json:"pair"`
	At       time.Time         `json:"at"`
	Took     time.Duration     `json:"took"`
	Address  netip.Addr        `json:"address"`
	Big      *big.Int          `json:"big"`
	Any      any               `json:"any"`
	Raw      json.RawMessage   `json:"raw,omitempty"`
	Number   json.Number       `json:"number,omitempty"`
	Page     Page[Line]        `json:"page"`
	Pages    Page[[]Line]      `json:"pages"`
	Yes      bool              `json:"yes,string"`
	Maybe    *int              `json:"maybe,string"`
	Empty    struct{}          `json:"empty"`
	Unsaid   int               `json:"-"`
	Dash     int               `json:"-,"`
	Unnamed  struct{ A, B int }
	Größe    int
	Callback func() `json:"-"`
}

// Header is embedded in others.
type Header struct {
	Source string `json:"source"`
	ID     string `json:"id"` // that of the order hides it
	Same   int    `json:"same"`
}

// Gift is embedded by pointer.
type Gift struct {
	Card string `json:"card"`
	Same int    `json:"same"`
}

type hidden struct{ Seen bool }

// Line is one line of an order.
type Line struct {
	Name string `json:"name"`
	// Count is how many.
	Count uint8 `json:"count"`
}

// Pack packs a line. What does not fit comes back later.
//
//stream:subscriber stream=jobs group=shop task=pack timeout=30s
func Pack(context.Context, Line) error { return nil }

// Cents are what things cost.
type Cents int64

// State is how far an order has come.
type State string

// The states.
const (
	Open   State = "open"
	Closed State = "closed"
)

// Level is a number with names.
type Level int8

// The levels.
const (
	Low Level = iota + 1
	High
)

// Access is a set of bits.
type Access uint8

// The bits.
const (
	Read Access = 1 << iota
	Write
	Delete
)

// Page is a part of a list.
type Page[T any] struct {
	Items []T      `json:"items"`
	Next  *Page[T] `json:"next,omitempty"`
}

// Sample has what only CBOR has.
type Sample struct {
	Key   int       `cbor:"1,keyasint"`
	Name  string    `cbor:"n" json:"name"`
	Left  string    `json:"left,omitempty"`
	Point Point     `cbor:"point"`
	Body  []byte    `cbor:"body"`
	Hash  [3]byte   `cbor:"hash"`
	At    time.Time `cbor:"at"`
	Took  time.Duration
	State State
	Table map[string]int
}

// Point is written as an array.
type Point struct {
	_    struct{} `cbor:",toarray"`
	X, Y int16
}

// Click is an entry that others write.
type Click struct {
	URL     string         `stream:"url"`
	User    int64          `stream:"user"`
	Small   uint8          `stream:"small"`
	Rate    float64        `stream:"rate"`
	Bot     bool           `stream:"bot"`
	SeenAt  time.Time      `stream:"seen_at,unixms"`
	Took    *time.Duration `stream:"took"`
	State   *State         `stream:"state"`
	Level   *Level         `stream:"level"`
	Ignored chan int       `stream:"-"`
}

// TakeOrder takes orders. It does no more.
//
//stream:subscriber stream=orders group=shop claim=30s delay-set=orders.delayed delay-ttl=36h timeout=1m30s
func TakeOrder(context.Context, *Order) error { return nil }

//stream:subscriber stream=orders group=audit codec=cbor
func AuditOrder(context.Context, Sample) error { return nil }

//stream:subscriber stream=jobs group=shop "task=send it"
func Send(context.Context, Line) error { return nil }

//stream:subscriber stream=clicks codec=fields
func Bill(context.Context, Click) error { return nil }

//stream:subscriber stream=clicks group=copy codec=raw foreign
func Copy(context.Context, []byte) error { return nil }

//stream:subscriber list={media}:images/{large} reliable
func Image(context.Context, Page[*Line]) error { return nil }

//stream:subscriber channel=prices
func Price(context.Context, map[string]float64) error { return nil }

//stream:subscriber channel=prices sharded name=prices/sharded
func Sharded(context.Context, []Cents) error { return nil }

//stream:subscriber pattern=events.[ab]?#1
func Event(context.Context, struct{ Größe int }) error { return nil }

//stream:subscriber "stream=orders v~2/%41" group=shop
func Odd(context.Context, any) error { return nil }
