package app

import "time"

// watchEvery is how often the app looks whether a subscription has turned bad or good, and so how late the log says it.
const watchEvery = time.Second

// watch logs once when a subscription turns bad and once when it is good again, and has the log's lines counted that were
// left out. It goes on until the function that it returns is called.
func (a *App) watch(lines *lines) (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		since := map[*reading]time.Time{}
		for {
			select {
			case <-stop:
				lines.sum(true)
				return
			case <-ticker.C:
			}
			a.logHealth(since)
			lines.sum(false)
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// logHealth logs what has changed. since is from when the bad ones have been bad.
func (a *App) logHealth(since map[*reading]time.Time) {
	a.mu.Lock()
	life := a.life
	a.mu.Unlock()
	if life.state != stateRunning {
		return
	}
	for i := range life.opened {
		o := &life.opened[i]
		bad := o.bad()
		began, was := since[o.reading]
		switch {
		case len(bad) > 0 && !was:
			since[o.reading] = bad[0].Since
			checks, errs := texts(bad)
			a.log.Error("a subscription is unhealthy: what it needs of the server has not succeeded for too long",
				"mount", o.reading.name(), "checks", checks, "since", bad[0].Since, "error", errs)
		case len(bad) == 0 && was:
			delete(since, o.reading)
			a.log.Info("the subscription is healthy again", "mount", o.reading.name(), "after", time.Since(began).Round(time.Millisecond))
		}
	}
}
