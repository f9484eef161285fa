package streamrt

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
)

// valueKind is a kind of value that a flat field can hold.
type valueKind int

const (
	noValue valueKind = iota
	timeValue
	durationValue
	textValue // by UnmarshalText
	stringValue
	bytesValue
	boolValue
	intValue
	uintValue
	floatValue
)

var (
	timeType            = reflect.TypeFor[time.Time]()
	durationType        = reflect.TypeFor[time.Duration]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func kindOf(t reflect.Type) valueKind {
	switch {
	case t == timeType:
		return timeValue
	case t == durationType:
		return durationValue
	case reflect.PointerTo(t).Implements(textUnmarshalerType):
		return textValue
	}
	switch t.Kind() {
	case reflect.String:
		return stringValue
	case reflect.Bool:
		return boolValue
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intValue
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return uintValue
	case reflect.Float32, reflect.Float64:
		return floatValue
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesValue
		}
	case reflect.Struct:
		if t.ConvertibleTo(timeType) {
			return timeValue
		}
	}
	return noValue
}

// valueParser sets a value from its text. The error shows the text, shortened.
type valueParser func(to reflect.Value, s string) error

// parserFor returns nil where the kind does not have the option.
func parserFor(kind valueKind, option string) valueParser {
	switch kind {
	case timeValue:
		return timeParsers[option]
	case durationValue:
		return durationParsers[option]
	}
	if option != "" {
		return nil
	}
	return parsers[kind]
}

var timeParsers = map[string]valueParser{
	"": func(to reflect.Value, s string) error {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return fmt.Errorf("%s is not a time such as 2006-01-02T15:04:05Z", shown(s))
		}
		setTime(to, t)
		return nil
	},
	"unix":   timeSince1970(1, time.Unix),
	"unixms": timeSince1970(1000, func(ms, _ int64) time.Time { return time.UnixMilli(ms) }),
}

var durationParsers = map[string]valueParser{
	"": func(to reflect.Value, s string) error {
		d, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%s is not a duration such as 1m30s", shown(s))
		}
		to.SetInt(int64(d))
		return nil
	},
	"s":  wholeDuration(time.Second),
	"ms": wholeDuration(time.Millisecond),
}

var parsers = map[valueKind]valueParser{
	textValue: func(to reflect.Value, s string) error {
		if err := to.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
			return fmt.Errorf("%s: %w", shown(s), err)
		}
		return nil
	},
	stringValue: func(to reflect.Value, s string) error {
		to.SetString(s)
		return nil
	},
	bytesValue: func(to reflect.Value, s string) error {
		to.SetBytes([]byte(s))
		return nil
	},
	boolValue: func(to reflect.Value, s string) error {
		switch s {
		case "true", "1":
			to.SetBool(true)
		case "false", "0":
			to.SetBool(false)
		default:
			return fmt.Errorf("%s is not true, false, 1 or 0", shown(s))
		}
		return nil
	},
	intValue: func(to reflect.Value, s string) error {
		n, err := strconv.ParseInt(s, 10, to.Type().Bits())
		if err != nil {
			return notANumber(s, "an integer", to, err)
		}
		to.SetInt(n)
		return nil
	},
	uintValue: func(to reflect.Value, s string) error {
		n, err := strconv.ParseUint(s, 10, to.Type().Bits())
		if err != nil {
			return notANumber(s, "an integer of 0 or more", to, err)
		}
		to.SetUint(n)
		return nil
	},
	floatValue: func(to reflect.Value, s string) error {
		f, err := strconv.ParseFloat(s, to.Type().Bits())
		if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
			err = strconv.ErrSyntax
		}
		if err != nil {
			return notANumber(s, "a finite number", to, err)
		}
		to.SetFloat(f)
		return nil
	},
}

func notANumber(s, kind string, to reflect.Value, err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is out of the range of %s", shown(s), to.Kind())
	}
	return fmt.Errorf("%s is not %s", shown(s), kind)
}

// The years 0 to 9999 are those that RFC 3339 can write, and a time of them never overflows.
var (
	firstSecond = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

func timeSince1970(perSecond int64, at func(n, _ int64) time.Time) valueParser {
	return func(to reflect.Value, s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err == nil && (n/perSecond < firstSecond || n/perSecond > lastSecond) {
			err = strconv.ErrRange
		}
		switch {
		case errors.Is(err, strconv.ErrRange):
			return fmt.Errorf("%s is not within the years 0 to 9999: is the unit of its tag right?", shown(s))
		case err != nil:
			return fmt.Errorf("%s is not a whole number", shown(s))
		}
		setTime(to, at(n, 0).UTC())
		return nil
	}
}

func setTime(to reflect.Value, t time.Time) {
	if p, ok := to.Addr().Interface().(*time.Time); ok {
		*p = t
		return
	}
	to.Set(reflect.ValueOf(t).Convert(to.Type()))
}

func wholeDuration(unit time.Duration) valueParser {
	return func(to reflect.Value, s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if most := int64(math.MaxInt64 / unit); err == nil && (n > most || n < -most) {
			err = strconv.ErrRange
		}
		switch {
		case errors.Is(err, strconv.ErrRange):
			return fmt.Errorf("%s is out of the range of time.Duration", shown(s))
		case err != nil:
			return fmt.Errorf("%s is not a whole number", shown(s))
		}
		to.SetInt(n * int64(unit))
		return nil
	}
}

// maxShown is how many bytes of a value an error shows.
const maxShown = 48

func shown(s string) string {
	if len(s) > maxShown {
		return strconv.Quote(s[:maxShown]) + "…"
	}
	return strconv.Quote(s)
}
