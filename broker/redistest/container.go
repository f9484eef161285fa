package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	redisPort = "6379/tcp"
	// pullTimeout bounds the first download of an image, some 50 MB.
	pullTimeout = 3 * time.Minute
	// probeTimeout is for a server at an address that may be the wrong one.
	probeTimeout = 15 * time.Second
	envReaper    = "TESTCONTAINERS_RYUK_DISABLED"
)

// containerKind is a server image under Docker.
type containerKind struct{ label, image, binary string }

func (k containerKind) name() string { return k.label }

func (k containerKind) launch(ctx context.Context, args []string, fixedPort bool) (in *instance, err error) {
	err = k.reach(ctx, func(ctx context.Context, host string) (err error) {
		in, err = k.publish(ctx, host, args, fixedPort)
		return err
	})
	return in, err
}

// reach calls start with the addresses at which the engine may publish ports, until one works.
func (k containerKind) reach(ctx context.Context, start func(ctx context.Context, host string) error) error {
	// The pull has a limit of its own: ctx is for the start.
	if err := ensureImage(k.image); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	hosts, err := publishHosts(ctx)
	if err != nil {
		return fmt.Errorf("find the address of the Docker engine: %w", err)
	}
	for i, host := range hosts {
		attempt, cancel := ctx, context.CancelFunc(func() {})
		if i < len(hosts)-1 {
			attempt, cancel = context.WithTimeout(ctx, probeTimeout)
		}
		err = start(attempt, host)
		unreachable := attempt.Err() != nil
		cancel()
		if err == nil {
			publishedAt.Store(host)
			return nil
		}
		if !unreachable {
			break
		}
	}
	return err
}

// publish runs the container at one address. A port that was free when it was chosen may be taken when the engine binds
// it.
func (k containerKind) publish(ctx context.Context, host string, args []string, fixedPort bool) (*instance, error) {
	for try := 1; ; try++ {
		in, err := k.run(ctx, host, args, fixedPort)
		if err == nil || !errors.Is(err, errPort) || try == 3 {
			return in, err
		}
	}
}

// errPort marks a container that could not be started, for which the port may be the reason.
var errPort = errors.New("the engine did not start it")

// run starts one container and waits until its server answers.
func (k containerKind) run(ctx context.Context, host string, args []string, fixedPort bool) (*instance, error) {
	binding := network.PortBinding{HostPort: "0"}
	// Published where the engine is reached and nowhere else: loopback on a developer's machine. A remote engine that is
	// known by a name picks the address itself.
	if ip, err := netip.ParseAddr(host); err == nil {
		binding.HostIP = ip
	}
	if fixedPort {
		port, err := freePort(host)
		if err != nil {
			return nil, err
		}
		binding.HostPort = strconv.Itoa(port)
	}
	cmd := append([]string{k.binary, "--save", "", "--appendonly", "no", "--protected-mode", "no"}, args...)
	ctr, err := testcontainers.Run(ctx, k.image,
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithCmd(cmd...),
		testcontainers.WithExposedPorts(redisPort),
		testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) {
			hc.PortBindings = network.PortMap{network.MustParsePort(redisPort): {binding}}
		}),
		// The port only: whether the server answers is asked through the published address, which is what tests use.
		testcontainers.WithWaitStrategy(wait.ForMappedPort(redisPort).WithPollInterval(10*time.Millisecond)),
	)
	proc := &containerProcess{ctr}
	fail := func(what string, err error) (*instance, error) {
		err = fmt.Errorf("%s: %s: %w", k.label, what, err)
		return nil, errors.Join(err, proc.remove(context.WithoutCancel(ctx)))
	}
	if err != nil {
		if fixedPort {
			err = fmt.Errorf("%w: %w", errPort, err)
		}
		return fail("start "+k.image, err)
	}
	port, err := ctr.MappedPort(ctx, redisPort)
	if err != nil {
		return fail("find the published port", err)
	}
	base := &url.URL{Scheme: "redis", Host: net.JoinHostPort(host, strconv.Itoa(int(port.Num())))}
	in, err := connect(ctx, k, base, proc)
	if err != nil {
		return fail("connect", err)
	}
	return in, nil
}

// containerProcess ends and restarts one container. The container may be nil: it was never made.
type containerProcess struct {
	ctr *testcontainers.DockerContainer
}

func (p *containerProcess) stop(ctx context.Context) error {
	patience := 5 * time.Second
	return p.ctr.Stop(ctx, &patience)
}

func (p *containerProcess) start(ctx context.Context) error { return p.ctr.Start(ctx) }

func (p *containerProcess) remove(ctx context.Context) error {
	if p.ctr == nil {
		return nil
	}
	return p.ctr.Terminate(ctx, testcontainers.StopContext(ctx), testcontainers.StopTimeout(time.Second))
}

// gone notices a server that refused its arguments, so that nobody waits for it. The log of the container says which.
func (p *containerProcess) gone(ctx context.Context) error {
	s, err := p.ctr.State(ctx)
	if err != nil || s.Running {
		return nil //nolint:nilerr // not knowing is no reason to give up; ctx bounds the wait
	}
	return fmt.Errorf("the container has ended with exit code %d%s", s.ExitCode, p.lastWords(ctx))
}

// lastWords is the end of the container's log, for an error.
func (p *containerProcess) lastWords(ctx context.Context) string {
	out, err := p.ctr.Logs(ctx)
	if err != nil {
		return ""
	}
	defer out.Close() //nolint:errcheck // only read from
	text, err := io.ReadAll(out)
	if err != nil {
		return ""
	}
	return tail(text)
}

// dockerAnswers reports why no engine can be used, or nil. It is decided once a process.
var dockerAnswers = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	withoutReaperImage(ctx)
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(log.NewNoopLogger()))
	if err != nil {
		return err
	}
	defer provider.Close() //nolint:errcheck // only read from
	return provider.Health(ctx)
})

// withoutReaperImage switches the reaper of testcontainers off where its image is neither here nor to be had. It must
// run before testcontainers reads its configuration, which it does once; without it no container would start on a
// machine that has the server images and no registry.
func withoutReaperImage(ctx context.Context) {
	if os.Getenv(envReaper) != "" {
		return
	}
	// testcontainers falls back to the usual socket where DOCKER_HOST leads nowhere.
	for _, opts := range [][]client.Opt{{client.FromEnv}, nil} {
		if reaperIsMissing(ctx, opts) {
			_ = os.Setenv(envReaper, "true") // fails for malformed names only
			return
		}
	}
}

func reaperIsMissing(ctx context.Context, opts []client.Opt) bool {
	docker, err := client.New(opts...)
	if err != nil {
		return false
	}
	defer docker.Close() //nolint:errcheck // only read from
	if _, err := docker.Ping(ctx, client.PingOptions{}); err != nil {
		return false
	}
	//nolint:staticcheck // deprecated without a successor; a wrong image costs the reaper, not the test
	return pull(docker, testcontainers.ReaperDefaultImage) != nil
}

var images sync.Map // image → func() error, so that a pull which failed is not tried again

// ensureImage reports a missing server where the image is neither on the machine nor to be pulled.
func ensureImage(image string) error {
	if os.Getenv("TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX") != "" {
		return nil // testcontainers renames the image and pulls it itself
	}
	once, _ := images.LoadOrStore(image, sync.OnceValue(func() error {
		docker, err := testcontainers.NewDockerClientWithOpts(context.Background())
		if err != nil {
			return missing("no Docker engine answers: %v", err)
		}
		defer docker.Close() //nolint:errcheck // only read from
		if err := pull(docker, image); err != nil {
			return missing("the image %s is not on this machine and cannot be pulled (%v)", image, err)
		}
		return nil
	}))
	return once.(func() error)()
}

// puller is the part of a Docker client that pull needs; testcontainers' client and the plain one both have it.
type puller interface {
	ImageInspect(ctx context.Context, image string, opts ...client.ImageInspectOption) (client.ImageInspectResult, error)
	ImagePull(ctx context.Context, ref string, opts client.ImagePullOptions) (client.ImagePullResponse, error)
}

// pull gets an image that is not there yet. It tries once: testcontainers would retry an unreachable registry for
// minutes.
func pull(docker puller, image string) error {
	ctx, cancel := context.WithTimeout(context.Background(), pullTimeout)
	defer cancel()
	if _, err := docker.ImageInspect(ctx, image); err == nil {
		return nil
	}
	answer, err := docker.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	return answer.Wait(ctx)
}

// publishedAt is the address that worked, so that it is found out once a process.
var publishedAt atomic.Value // string

// publishHosts lists the addresses at which a published port may be reached, the likeliest first. A process inside a
// container cannot tell whether the engine beside it runs in the same container, where loopback is right, or outside,
// where the gateway is: both are tried.
func publishHosts(ctx context.Context) ([]string, error) {
	if host, ok := publishedAt.Load().(string); ok {
		return []string{host}, nil
	}
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(log.NewNoopLogger()))
	if err != nil {
		return nil, err
	}
	defer provider.Close() //nolint:errcheck // only read from
	host, err := provider.DaemonHost(ctx)
	if err != nil {
		return nil, err
	}
	const loopback = "127.0.0.1"
	local := strings.HasPrefix(provider.Client().DaemonHost(), "unix:")
	switch {
	case host == "localhost" || host == loopback:
		return []string{loopback}, nil
	case local && os.Getenv("TESTCONTAINERS_HOST_OVERRIDE") == "":
		return []string{loopback, host}, nil
	default:
		return []string{host}, nil
	}
}

// freePort asks the kernel for a port that nobody listens on.
func freePort(host string) (int, error) {
	ports, err := freePorts(host, 1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}
