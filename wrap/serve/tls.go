package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/mfgs/mfgs/internal/files"
)

// maxPEM bounds a file of certificates.
const maxPEM = 1 << 20

// load reads the files; it returns nil without TLS.
func (t TLS) load() (*tls.Config, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	pair := &keyPair{certFile: t.CertFile, keyFile: t.KeyFile}
	if err := pair.read(); err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get}
	if t.ClientCA == "" {
		return c, nil
	}
	pem, err := files.Read(t.ClientCA, maxPEM)
	if err != nil {
		return nil, err
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no PEM certificate in it", t.ClientCA)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c, nil
}

// recheck is how often the files of a certificate are checked for changes.
const recheck = 10 * time.Second

// A keyPair is a certificate in files, which are read again when they change: certificates are renewed while
// servers run.
type keyPair struct {
	certFile, keyFile string

	mu      sync.Mutex
	pair    *tls.Certificate
	changed [2]time.Time // of the files
	checked time.Time
}

func (k *keyPair) read() error {
	var changed [2]time.Time
	for i, name := range []string{k.certFile, k.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		changed[i] = info.ModTime()
	}
	if k.pair != nil && changed == k.changed {
		return nil
	}
	cert, err := files.Read(k.certFile, maxPEM)
	if err != nil {
		return err
	}
	key, err := files.Read(k.keyFile, maxPEM)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", k.certFile, k.keyFile, err)
	}
	k.pair, k.changed = &pair, changed
	return nil
}

// get returns the certificate, or the one before while the files are being written.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.checked) > recheck {
		k.checked = now
		_ = k.read() // on error the certificate in memory is used
	}
	if k.pair == nil {
		return nil, errors.New("no certificate")
	}
	return k.pair, nil
}
