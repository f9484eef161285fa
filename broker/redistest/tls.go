package redistest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"
)

// TLS starts a server that speaks nothing but TLS, with a certificate that was made for this test and that nobody else
// trusts, and ends it with the test. Its URL begins with rediss://; [Server.TLSConfig] is what a client needs besides.
func TLS(t testing.TB) *Server {
	t.Helper()
	certificate, key, config, err := selfSigned()
	if err != nil {
		t.Fatalf("redistest: make a certificate: %v", err)
	}
	describe := func(ports []int) []member {
		return []member{{
			port: ports[0],
			args: []string{
				"--port", "0", "--tls-port", strconv.Itoa(ports[0]), "--save", "", "--appendonly", "no",
				"--tls-cert-file", "{dir}/server.crt", "--tls-key-file", "{dir}/server.key", "--tls-ca-cert-file", "{dir}/server.crt",
				"--tls-auth-clients", "no",
			},
			files: map[string][]byte{"server.crt": certificate, "server.key": key},
			base:  url.URL{Scheme: "rediss"},
		}}
	}
	trusting := func(ctx context.Context, k kind, base *url.URL, proc process) (*instance, error) {
		return connectWith(ctx, &instance{kind: k, base: base, proc: proc, tls: config})
	}
	k := firstStartable(t)
	return startGroup(t, k, func(ctx context.Context) ([]*instance, error) { return launchGroup(ctx, k, 1, describe, trusting) })[0]
}

// TLSConfig trusts the certificate of a server from [TLS]. It is nil for every other server.
func (s *Server) TLSConfig() *tls.Config { return s.in.tls.Clone() }

// selfSigned makes a certificate for the loopback, and a configuration that trusts it.
func selfSigned() (certificate, key []byte, config *tls.Config, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, nil, err
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		&tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}, nil
}
