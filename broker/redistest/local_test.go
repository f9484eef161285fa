package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
)

// envFake makes this test binary a server program, for machines without one.
const envFake = "REDISTEST_FAKE_SERVER"

// fakeServer listens where --port says and answers what a start asks: PING and INFO. It refuses unknown arguments as a
// real server does, and never returns.
func fakeServer() {
	if i := slices.Index(os.Args, "--no-such-directive"); i >= 0 {
		fmt.Println("Bad directive or wrong number of arguments:", os.Args[i])
		os.Exit(1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Args[slices.Index(os.Args, "--port")+1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		go func() {
			in := bufio.NewScanner(c)
			for in.Scan() {
				switch word := strings.ToUpper(in.Text()); word {
				case "PING":
					fmt.Fprint(c, "+PONG\r\n")
				case "INFO":
					text := fmt.Sprintf("# Server\r\nredis_version:7.0.0\r\nprocess_id:%d\r\n", os.Getpid())
					fmt.Fprintf(c, "$%d\r\n%s\r\n", len(text), text)
				case "HELLO", "CLIENT":
					fmt.Fprint(c, "-ERR unknown command\r\n")
				}
			}
		}()
	}
}

// serverProgram is a real server where the machine has one, else this binary.
func serverProgram(t *testing.T) binaryKind {
	t.Helper()
	path, err := findBinary()
	if err != nil {
		t.Setenv(envFake, "1")
		if path, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	return binaryKind{path}
}

func TestLocalBinaryStartsAndLeavesNothing(t *testing.T) {
	k := serverProgram(t)
	in, err := launch(k, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	p := in.proc.(*binaryProcess)
	if !strings.HasPrefix(in.url(1), "redis://127.0.0.1:") {
		t.Errorf("it listens at %s", in.url(1))
	}
	s := &Server{in: in, own: true, client: in.client(0)}
	defer s.client.Close()
	first := p.cmd.Process.Pid
	s.Restart(t)
	if p.cmd.Process.Pid == first {
		t.Error("Restart left the process running")
	}
	if err := in.remove(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	default:
		t.Error("the process still runs")
	}
	if _, err := os.Stat(p.dir); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
}

func TestLocalBinaryThatRefusesItsArgumentsFails(t *testing.T) {
	_, err := launch(serverProgram(t), []string{"--no-such-directive", "1"}, false)
	if err == nil || judge(err, false).skip || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("err = %v", err)
	}
}

func TestPoolEndsAServerWithItsLastLease(t *testing.T) {
	k := firstStartable(t)
	p := &pool{entries: map[string]*entry{}}
	a, err := p.take(k)
	if err != nil {
		give(t, err)
	}
	b, err := p.take(k)
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Error("two leases of one kind started two servers")
	}
	if err := p.put(k); err != nil {
		t.Fatal(err)
	}
	c := a.client(0)
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the server ended before its last lease: %v", err)
	}
	if err := p.put(k); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("the server outlives its last lease")
	}
}
