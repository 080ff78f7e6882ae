package server

import (
	"context"
	"encoding/pem"
	"regexp"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// plainPath is what can be an argument as it stands.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./-]*$`)

// replaceCertificate changes a certificate in one transaction, which is gone
// when this returns, one way or the other.
func (o *operator) replaceCertificate(ctx context.Context, file string) error {
	content, err := o.root.ReadFile(file)
	if err != nil {
		return err
	}
	payload, err := certificatePayload(content)
	if err != nil {
		return err
	}
	want, err := (&comparison{root: o.root}).fingerprint(file)
	if err != nil {
		return err
	}
	if err := o.checkCertificate(ctx, file); err != nil {
		return err
	}
	err = o.transact(ctx, file, payload, want)
	if err != nil {
		// In doubt too: an open transaction would block the next one.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		_, _ = o.ask(ending, "abort ssl cert "+file) // none is open, then
	}
	return err
}

// checkCertificate requires that the file alone is the certificate.
func (o *operator) checkCertificate(ctx context.Context, file string) error {
	if !plainPath.MatchString(file) {
		return refusal("its name cannot be given to the worker")
	}
	for other := range o.files {
		// Keys, OCSP answers and issuers may lie beside a certificate.
		if strings.HasPrefix(other, file+".") {
			return refusal("another file may belong to it")
		}
	}
	answer, err := o.ask(ctx, "show ssl cert")
	if err != nil {
		return err
	}
	loaded := strings.Split(answer, "\n")
	for _, name := range loaded {
		if strings.HasPrefix(name, "*") {
			return refusal("somebody else's transaction is open")
		}
	}
	return known(loaded, file)
}

// transact commits only what the worker has understood: that certificate, whole.
func (o *operator) transact(ctx context.Context, file, payload, want string) error {
	answer, err := o.ask(ctx, "set ssl cert "+file+" <<\n"+payload)
	if err := expect(answer, err, "Transaction created for certificate"); err != nil {
		return err
	}
	for _, name := range []string{"*" + file, file} {
		if name == file {
			answer, err := o.ask(ctx, "commit ssl cert "+file)
			if err != nil {
				return err
			}
			if !strings.HasSuffix(strings.TrimSpace(answer), "Success!") {
				return refusedByWorker
			}
		}
		shown, err := o.ask(ctx, "show ssl cert "+name)
		if err != nil {
			return err
		}
		_, got, _ := strings.Cut(shown, "SHA1 FingerPrint: ")
		if got, _, _ = strings.Cut(got, "\n"); !strings.EqualFold(strings.TrimSpace(got), want) {
			return refusal("the worker understood another certificate")
		}
	}
	return nil
}

// certificatePayload is a file as the command line takes it. An empty line would
// end it in the middle and have the rest read as commands, so that nothing but
// the blocks is sent; what is no clear case is left to a reload.
func certificatePayload(content []byte) (string, error) {
	var payload strings.Builder
	certificates, keys := 0, 0
	rest := content
	for {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		rest = after
		switch {
		case len(block.Headers) > 0:
			return "", refusal("a block has headers")
		case block.Type == "CERTIFICATE":
			certificates++
		case strings.HasSuffix(block.Type, "PRIVATE KEY") && !strings.Contains(block.Type, "ENCRYPTED"):
			keys++
		case block.Type == "DH PARAMETERS" || block.Type == "EC PARAMETERS":
		default:
			return "", refusal("a block is of a kind that is not known here")
		}
		payload.Write(pem.EncodeToMemory(block))
	}
	switch {
	case certificates == 0 || keys != 1:
		return "", refusal("it is not one key with its certificates")
	case strings.Count(string(content), "-----BEGIN") != strings.Count(payload.String(), "-----BEGIN"):
		return "", refusal("a block cannot be read")
	case payload.Len() > api.MaxLineBytes:
		return "", refusal("it exceeds what HAProxy takes at once")
	}
	return payload.String(), nil
}
