package serve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap/serve"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// sign writes a certificate and its key to NAME.crt and NAME.key, signed by a, or self-signed if a has no certificate.
func (a *authority) sign(name string) (certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: a.cert == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if a.cert == nil {
		a.cert, a.key = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	write := func(file, kind string, data []byte) string {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
		return wraptest.Write(a.t, a.dir, file, text)
	}
	return write(name+".crt", "CERTIFICATE", der), write(name+".key", "PRIVATE KEY", secret)
}

func TestTLSAndClientCertificates(t *testing.T) {
	t.Parallel()
	a := &authority{t: t, dir: t.TempDir()}
	ca, _ := a.sign("ca")
	cert, key := a.sign("server")
	clientCert, clientKey := a.sign("client")
	foreign := &authority{t: t, dir: t.TempDir()}
	foreignCert, foreignKey := foreign.sign("foreign")
	r := start(t, serve.Config{
		Bundles: []serve.Bundle{{Dir: digits(t)}}, TLS: serve.TLS{CertFile: cert, KeyFile: key, ClientCA: ca},
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(wraptest.Read(t, ca))
	config := func(certFile, keyFile string) *tls.Config {
		c := &tls.Config{RootCAs: roots}
		if certFile != "" {
			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		return c
	}
	ask := func(c *tls.Config) (string, error) {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}}
		defer client.CloseIdleConnections()
		answer, err := client.Get("https://" + r.HTTPAddr().String() + "/v2")
		if err != nil {
			return "", err
		}
		answer.Body.Close()
		return answer.Proto + " " + answer.Status, nil
	}
	check := func(c *tls.Config) error {
		conn, err := grpc.NewClient(r.GRPCAddr().String(), grpc.WithTransportCredentials(credentials.NewTLS(c)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	if got, err := ask(config(clientCert, clientKey)); err != nil || got != "HTTP/2.0 200 OK" {
		t.Errorf("with a certificate: %s, %v", got, err)
	}
	if err := check(config(clientCert, clientKey)); err != nil {
		t.Errorf("gRPC with a certificate: %v", err)
	}
	for name, c := range map[string]*tls.Config{
		"none": config("", ""), "a foreign one": config(foreignCert, foreignKey),
	} {
		if got, err := ask(c); err == nil {
			t.Errorf("with certificate %s: %s", name, got)
		}
		if err := check(c); err == nil {
			t.Errorf("gRPC with certificate %s is answered", name)
		}
	}
	if r.SharesTLS() {
		t.Error("HTTP writes to the configuration that gRPC reads")
	}
	plain, err := http.Get("http://" + r.HTTPAddr().String() + "/v2")
	if err == nil {
		plain.Body.Close()
		if plain.StatusCode == http.StatusOK {
			t.Error("without TLS it answers")
		}
	}
}

func TestMismatchedTLSFilesAreRefused(t *testing.T) {
	t.Parallel()
	a := &authority{t: t, dir: t.TempDir()}
	ca, caKey := a.sign("ca")
	_, key := a.sign("server")
	empty := wraptest.Write(t, a.dir, "empty.crt", nil)
	for want, c := range map[string]serve.TLS{
		"private key does not match": {CertFile: ca, KeyFile: key},
		"no such file":               {CertFile: filepath.Join(a.dir, "none"), KeyFile: key},
		"no PEM certificate":         {CertFile: ca, KeyFile: caKey, ClientCA: empty},
		"a certificate and its key":  {CertFile: ca},
	} {
		_, err := serve.New(t.Context(), serve.Config{
			Bundles: []serve.Bundle{{Name: "m", Dir: t.TempDir()}}, HTTP: "127.0.0.1:0", TLS: c,
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
