// cut:main

// Command hello greets new users: one handler, on a server inside the process or on a real one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// Signup is what is published for each new user.
type Signup struct {
	Email string `json:"email"`
}

// SendWelcome greets a new user. The first attempt of every message fails, to show what happens then.
//
//stream:subscriber stream=signups group=welcome
func SendWelcome(ctx context.Context, s Signup) error {
	m := app.MessageFrom(ctx)
	if m.Attempt == 1 {
		return errors.New("the mail server is asleep")
	}
	fmt.Printf("welcome, %s (attempt %d)\n", s.Email, m.Attempt)
	return nil
}

// service mounts the handler on the broker.
func service(b broker.Broker) (*app.App, *app.Mounts) {
	a := app.New("hello", "0.1.0")
	m := a.Broker(b)
	m.Mount(SendWelcomeSubscription, app.MaxAttempts(5), app.DeadLetter("signups.dlq"))
	return a, m
}

func main() {
	url := flag.String("redis", "", "redis://host:port/db; a server inside the process if empty")
	flag.Parse()
	var b broker.Broker
	if *url == "" {
		b = embedded.New()
	} else {
		b = redisbroker.Standalone(*url)
	}
	a, m := service(b)
	a.AfterStartup(func(ctx context.Context) error {
		return m.Publish(ctx, broker.Stream("signups"), Signup{Email: "ada@example.com"})
	})
	a.Main()
}

// cut:end
