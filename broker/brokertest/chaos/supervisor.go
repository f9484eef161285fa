//go:build unix

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// supervisor starts worker processes, ends them in every way there is, and starts others in their place. It is safe for
// concurrent use; the processes end with the test.
type supervisor struct {
	t     testing.TB
	order order

	mu      sync.Mutex
	started []*process
	// keeping: a process that ends is replaced.
	keeping bool
	running sync.WaitGroup
}

// process is one start of a worker.
type process struct {
	number int
	cmd    *exec.Cmd
	log    string
	stdin  io.Closer
	done   chan struct{} // closed when it has ended

	mu sync.Mutex
	// killed and stopped are when the signal was sent, frozen the pairs of SIGSTOP and SIGCONT.
	killed, stopped time.Time
	frozen          [][2]time.Time
	ended           time.Time
}

// newSupervisor starts nothing yet.
func newSupervisor(t testing.TB, o order) *supervisor {
	o.Journal = t.TempDir()
	s := &supervisor{t: t, order: o}
	t.Cleanup(s.end)
	return s
}

// start starts one more worker.
func (s *supervisor) start() *process {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.startLocked()
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// keep starts n workers, and another one for each that ends, until release is called.
func (s *supervisor) keep(n int) {
	s.t.Helper()
	s.mu.Lock()
	s.keeping = true
	s.mu.Unlock()
	for range n {
		s.start()
	}
}

// release lets the workers that run be the last.
func (s *supervisor) release() {
	s.mu.Lock()
	s.keeping = false
	s.mu.Unlock()
}

func (s *supervisor) startLocked() (*process, error) {
	o := s.order
	o.Number = len(s.started) + 1
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{number: o.Number, log: filepath.Join(o.Journal, "log-"+strconv.Itoa(o.Number)), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has its own descriptor
	p.cmd = exec.Command(path)
	p.cmd.Env = append(os.Environ(), envWorker+"="+string(text))
	p.cmd.Stderr = log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	s.started = append(s.started, p)
	s.running.Go(func() { s.watch(p) })
	return p, nil
}

// watch waits for the end of a process and replaces it.
func (s *supervisor) watch(p *process) {
	_ = p.cmd.Wait() // how it ended is in its state
	p.mu.Lock()
	p.ended = time.Now()
	p.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	close(p.done) // under the lock: whoever has seen the end may call keep, and gets no other in its place
	if !s.keeping {
		return
	}
	if _, err := s.startLocked(); err != nil {
		s.t.Errorf("start a worker in place of number %d: %v", p.number, err)
	}
}

// all returns every process that was started so far.
func (s *supervisor) all() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*process(nil), s.started...)
}

// alive returns those that run.
func (s *supervisor) alive() []*process {
	var alive []*process
	for _, p := range s.all() {
		if !p.hasEnded() {
			alive = append(alive, p)
		}
	}
	return alive
}

// any returns one of those that run, nil where there is none.
func (s *supervisor) any() *process {
	alive := s.alive()
	if len(alive) == 0 {
		return nil
	}
	return alive[rand.IntN(len(alive))]
}

// byNumber returns the process of a call, nil where it was none of ours.
func (s *supervisor) byNumber(n int) *process {
	if all := s.all(); n <= len(all) {
		return all[n-1]
	}
	return nil
}

// crashes counts the processes that ended by themselves because a job told them to.
func (s *supervisor) crashes() int {
	n := 0
	for _, p := range s.all() {
		if p.hasEnded() && p.cmd.ProcessState.ExitCode() == exitCode {
			n++
		}
	}
	return n
}

// stop ends all workers in good order and reports those that did not end so.
func (s *supervisor) stop() {
	s.t.Helper()
	s.release()
	alive := s.alive()
	for _, p := range alive {
		// Before it reads a process may not even have asked for signals yet.
		await(s.t, patience, "the last workers read", func() bool { return s.ready(p) || p.hasEnded() })
		p.terminate()
	}
	for _, p := range alive {
		if err := p.wait(s.order.Grace + patience); err != nil {
			s.t.Error(err)
		}
	}
}

// end leaves nothing behind, whatever became of the test.
func (s *supervisor) end() {
	s.release()
	for _, p := range s.alive() {
		_ = p.cmd.Process.Kill() // it may have ended just now
	}
	s.running.Wait()
	s.reportRaces()
	if s.t.Failed() {
		s.logs()
	}
}

// reportRaces fails the test where a worker that was built with the race detector found one. A worker that is killed
// cannot say so by its exit code.
func (s *supervisor) reportRaces() {
	for _, p := range s.all() {
		text, err := os.ReadFile(p.log)
		if err != nil {
			continue // it did not come that far
		}
		if at := bytes.Index(text, []byte("WARNING: DATA RACE")); at >= 0 {
			s.t.Errorf("worker %d: %s", p.number, text[at:min(len(text), at+5000)])
		}
	}
}

// logs shows the last lines of the last few workers of a test that failed.
func (s *supervisor) logs() {
	const processes, size = 4, 3000
	all := s.all()
	for _, p := range all[max(0, len(all)-processes):] {
		text, err := os.ReadFile(p.log)
		if err != nil {
			text = []byte(err.Error())
		}
		s.t.Logf("log of worker %d (%v), its end:\n%s", p.number, p.cmd.ProcessState, text[max(0, len(text)-size):])
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends a signal; a process that has ended just now gets none.
func (p *process) signal(signal syscall.Signal) { _ = p.cmd.Process.Signal(signal) }

// kill ends the process with SIGKILL. The time is noted before: what the process did after it was done by nobody.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = time.Now()
	p.mu.Unlock()
	p.signal(syscall.SIGKILL)
	<-p.done
}

// freeze stops the process for a while with SIGSTOP and SIGCONT.
func (p *process) freeze(d time.Duration) {
	from := time.Now()
	p.signal(syscall.SIGSTOP)
	time.Sleep(d)
	p.mu.Lock()
	p.frozen = append(p.frozen, [2]time.Time{from, time.Now()})
	p.mu.Unlock()
	p.signal(syscall.SIGCONT)
}

// terminate asks the process to stop.
func (p *process) terminate() {
	p.mu.Lock()
	p.stopped = time.Now()
	p.mu.Unlock()
	p.signal(syscall.SIGTERM)
}

// wait waits for the end of a process that was asked to stop.
func (p *process) wait(d time.Duration) error {
	select {
	case <-p.done:
	case <-time.After(d):
		return fmt.Errorf("worker %d did not end within %s", p.number, d)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("worker %d ended with %v", p.number, p.cmd.ProcessState)
	}
	return nil
}

// ready reports whether every subscription of the process reads.
func (s *supervisor) ready(p *process) bool {
	_, err := os.Stat(filepath.Join(s.order.Journal, "ready-"+strconv.Itoa(p.number)))
	return err == nil
}
