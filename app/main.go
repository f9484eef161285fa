package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Main is [App.Run] for a program's main function: it works until SIGINT or SIGTERM, stops in good order, logs the error
// if there is one, and ends the process with 0, or with 1 after an error. A second signal ends the grace time at once,
// a third one the process.
func (a *App) Main() {
	if err := a.runUntilSignal(); err != nil {
		a.log.Error("ended with an error", "app", a.name, "version", a.version, "error", err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

func (a *App) runUntilSignal() error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	now := make(chan struct{})
	go func() {
		<-signals
		cancel()
		<-signals
		signal.Stop(signals)
		close(now)
	}()
	return a.run(ctx, now)
}
