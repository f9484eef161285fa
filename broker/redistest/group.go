package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
)

// member is one server of a group: servers that know each other by their ports on the loopback. Under Docker they share
// a container, which publishes each port under its own number, so that their addresses are the same inside and outside.
type member struct {
	port int
	// args of the program; {dir} stands for the directory of its files.
	args  []string
	files map[string][]byte
	// base is the address without host and port.
	base url.URL
}

// fileDir is where the files of members lie in a container.
const fileDir = "/redistest"

// arguments are the args with the directory filled in.
func (m member) arguments(dir string) []string {
	args := make([]string, len(m.args))
	for i, a := range m.args {
		args[i] = strings.ReplaceAll(a, "{dir}", dir)
	}
	return args
}

func (m member) address(host string) *url.URL {
	u := m.base
	if u.Scheme == "" {
		u.Scheme = "redis"
	}
	u.Host = net.JoinHostPort(host, strconv.Itoa(m.port))
	return &u
}

// group launches the members that describe makes of n free ports. The servers answer when it returns.
type group interface {
	kind
	group(ctx context.Context, n int, describe func(ports []int) []member, connect connector) ([]*instance, error)
}

// connector makes the instance of a member that was started at the address.
type connector func(ctx context.Context, k kind, base *url.URL, proc process) (*instance, error)

// launchGroup starts the members that describe makes of so many free ports.
func launchGroup(ctx context.Context, k kind, ports int, describe func(ports []int) []member, connect connector) ([]*instance, error) {
	g, ok := k.(group)
	if !ok {
		return nil, missing("%s starts no group of servers", k.name())
	}
	return g.group(ctx, ports, describe, connect)
}

// startGroup gives a test the servers that launch starts. Each has a process of its own under a local binary; under
// Docker stopping one stops them all.
func startGroup(t testing.TB, k kind, launch func(ctx context.Context) ([]*instance, error)) []*Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	instances, err := launch(ctx)
	if err != nil {
		give(t, err)
	}
	servers := make([]*Server, len(instances))
	for i, in := range instances {
		servers[i] = &Server{in: in, own: true, client: in.client(0)}
	}
	t.Cleanup(func() {
		for _, s := range servers {
			_ = s.client.Close() // the test may have stopped the server under it
			if err := s.in.remove(); err != nil {
				t.Errorf("redistest: end %s: %v", k.name(), err)
			}
		}
	})
	return servers
}

func (k containerKind) group(ctx context.Context, n int, describe func(ports []int) []member, connect connector) (ins []*instance, err error) {
	err = k.reach(ctx, func(ctx context.Context, host string) (err error) {
		for range 3 {
			ins, err = k.runGroup(ctx, host, n, describe, connect)
			if err == nil || !errors.Is(err, errPort) {
				return err
			}
		}
		return err
	})
	return ins, err
}

func (k containerKind) runGroup(ctx context.Context, host string, n int, describe func(ports []int) []member, connect connector) ([]*instance, error) {
	ports, err := freePorts(host, n)
	if err != nil {
		return nil, err
	}
	members := describe(ports)
	bindings := network.PortMap{}
	var exposed, commands []string
	var files []testcontainers.ContainerFile
	for i, m := range members {
		port := strconv.Itoa(m.port) + "/tcp"
		binding := network.PortBinding{HostPort: strconv.Itoa(m.port)}
		if ip, err := netip.ParseAddr(host); err == nil {
			binding.HostIP = ip
		}
		bindings[network.MustParsePort(port)] = []network.PortBinding{binding}
		exposed = append(exposed, port)
		dir := fileDir + "/" + strconv.Itoa(i)
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			files = append(files, testcontainers.ContainerFile{
				Reader: bytes.NewReader(m.files[name]), ContainerFilePath: dir + "/" + name, FileMode: 0o644,
			})
		}
		args := append(m.arguments(dir), "--protected-mode", "no")
		commands = append(commands, fmt.Sprintf("mkdir -p %[1]s && cd %[1]s && %s '%s' &", dir, k.binary, strings.Join(args, "' '")))
	}
	script := "trap 'kill 0' TERM\n" + strings.Join(commands, "\n") + "\nwait"
	options := []testcontainers.ContainerCustomizer{
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithEntrypoint("sh"),
		testcontainers.WithCmd("-c", script),
		testcontainers.WithExposedPorts(exposed...),
		testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) { hc.PortBindings = bindings }),
		testcontainers.WithWaitStrategy(wait.ForMappedPort(exposed[0])),
	}
	if len(files) > 0 {
		options = append(options, testcontainers.WithFiles(files...))
	}
	ctr, err := testcontainers.Run(ctx, k.image, options...)
	proc := &containerProcess{ctr}
	if err != nil {
		err = fmt.Errorf("%w: %s: start %s: %w", errPort, k.label, k.image, err)
		return nil, errors.Join(err, proc.remove(context.WithoutCancel(ctx)))
	}
	instances := make([]*instance, len(members))
	for i, m := range members {
		if instances[i], err = connect(ctx, k, m.address(host), proc); err != nil {
			err = fmt.Errorf("%s: connect: %w", k.label, err)
			return nil, errors.Join(err, proc.remove(context.WithoutCancel(ctx)))
		}
	}
	for _, in := range instances[1:] {
		in.shared = true // the first one takes the container with it
	}
	return instances, nil
}

func (k binaryKind) group(ctx context.Context, n int, describe func(ports []int) []member, connect connector) (ins []*instance, err error) {
	for range 3 {
		var ports []int
		if ports, err = freePorts("127.0.0.1", n); err != nil {
			return nil, err
		}
		if ins, err = k.runGroup(ctx, describe(ports), connect); err == nil {
			return ins, nil
		}
	}
	return nil, err
}

func (k binaryKind) runGroup(ctx context.Context, members []member, connect connector) (ins []*instance, err error) {
	var processes []*binaryProcess
	defer func() {
		if err != nil {
			for _, p := range processes {
				err = errors.Join(err, p.remove(context.WithoutCancel(ctx)))
			}
		}
	}()
	for _, m := range members {
		dir, err := os.MkdirTemp("", "redistest-")
		if err != nil {
			return nil, err
		}
		p := &binaryProcess{path: k.path, dir: dir, args: append(m.arguments(dir), "--bind", "127.0.0.1", "--dir", dir)}
		processes = append(processes, p)
		for name, data := range m.files {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				return nil, err
			}
		}
		if err := p.start(ctx); err != nil {
			return nil, err
		}
	}
	for i, m := range members {
		in, err := connect(ctx, k, m.address("127.0.0.1"), processes[i])
		if err == nil {
			err = processes[i].serves(ctx, in)
		}
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", k.path, err)
		}
		ins = append(ins, in)
	}
	return ins, nil
}

// freePorts asks for several ports at once, so that they differ.
func freePorts(host string, n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := listen(host)
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() //nolint:errcheck // it was opened to be closed
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// listen opens a port that nobody listens on. Where the host is not this machine, the loopback's answer is as good a
// guess as any.
func listen(host string) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	return l, nil
}
