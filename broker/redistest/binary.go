package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// binaryKind is a server program of this machine.
type binaryKind struct{ path string }

func (binaryKind) name() string { return nameLocal }

// findBinary returns the first server program on the PATH that is new enough.
var findBinary = sync.OnceValues(func() (string, error) {
	var old error
	for _, name := range []string{"redis-server", "valkey-server"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.Command(path, "--version").Output()
		if err == nil {
			err = newEnough(string(out))
		}
		if err == nil {
			return path, nil
		}
		old = fmt.Errorf("%s cannot be used: %w", path, err)
	}
	if old != nil {
		return "", old
	}
	return "", errors.New("no redis-server or valkey-server is on the PATH")
})

var versionWord = regexp.MustCompile(`\bv=(\d+)\.(\d+)`)

// newEnough reads what --version prints: "Redis server v=7.0.15 sha=…".
func newEnough(line string) error {
	m := versionWord.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("--version says %q", line)
	}
	if major, err := strconv.Atoi(m[1]); err != nil || major < 7 {
		return fmt.Errorf("its version is %s.%s and 7.0 is needed", m[1], m[2])
	}
	return nil
}

// launch ignores fixedPort: the port of a program is always one that redistest chose.
func (k binaryKind) launch(ctx context.Context, args []string, _ bool) (*instance, error) {
	var err error
	// A port that was free when it was chosen may be taken when the server binds it.
	for range 3 {
		var in *instance
		if in, err = k.run(ctx, args); err == nil {
			return in, nil
		}
	}
	return nil, err
}

func (k binaryKind) run(ctx context.Context, args []string) (*instance, error) {
	port, err := freePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, err
	}
	p := &binaryProcess{path: k.path, dir: dir, args: append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "", "--appendonly", "no",
	}, args...)}
	if err = p.start(ctx); err == nil {
		base := &url.URL{Scheme: "redis", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
		var in *instance
		if in, err = connect(ctx, k, base, p); err == nil {
			// Another server may have taken the port in between; then ours has ended, or is about to.
			if err = p.serves(ctx, in); err == nil {
				return in, nil
			}
		}
	}
	err = fmt.Errorf("start %s: %w", k.path, err)
	return nil, errors.Join(err, p.remove(context.WithoutCancel(ctx)))
}

// binaryProcess is one server program. Its methods are called one after another.
type binaryProcess struct {
	path, dir string
	args      []string
	cmd       *exec.Cmd
	ended     chan struct{} // closed when cmd has been waited for
}

func (p *binaryProcess) logPath() string { return filepath.Join(p.dir, "server.log") }

func (p *binaryProcess) start(context.Context) error {
	out, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the child has its own descriptor
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		_ = cmd.Wait() // how it ended is in its log
		close(ended)
	}(p.ended)
	return nil
}

func (p *binaryProcess) stop(ctx context.Context) error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		_ = p.cmd.Process.Kill() // it may have ended in this moment
		<-p.ended
		return fmt.Errorf("%s did not end in time and was killed", p.path)
	}
}

func (p *binaryProcess) remove(ctx context.Context) error {
	return errors.Join(p.stop(ctx), os.RemoveAll(p.dir))
}

// serves reports an error where another process answers at the address.
func (p *binaryProcess) serves(ctx context.Context, in *instance) error {
	c := in.client(0)
	defer c.Close() //nolint:errcheck // only read from
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if want := "process_id:" + strconv.Itoa(p.cmd.Process.Pid) + "\r\n"; !bytes.Contains([]byte(info), []byte(want)) {
		return fmt.Errorf("another server answers at %s", in.base.Host)
	}
	return nil
}

// gone notices a server that refused its arguments or did not get its port.
func (p *binaryProcess) gone(context.Context) error {
	select {
	case <-p.ended:
	default:
		return nil
	}
	text, err := os.ReadFile(p.logPath())
	if err != nil {
		return errors.New("the server has ended")
	}
	return fmt.Errorf("the server has ended%s", tail(text))
}

// tail is the end of a log on lines of its own.
func tail(log []byte) string {
	const most = 1000
	if len(log) > most {
		log = log[len(log)-most:]
	}
	return "\n" + strings.TrimSpace(string(log))
}
