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

// certificateChange is what one transaction is to do.
type certificateChange struct {
	file    string
	payload string
	want    string // fingerprint
	// used: the worker serves it, before and after.
	used bool
}

// replaceCertificate changes a certificate in one transaction.
func (o *operator) replaceCertificate(ctx context.Context, file string) error {
	payload, want, err := o.certificate(file)
	if err != nil {
		return err
	}
	loaded, err := o.loadedCertificates(ctx, file)
	if err != nil {
		return err
	}
	if err := known(loaded, file); err != nil {
		return err
	}
	return o.transactCertificate(ctx, certificateChange{file: file, payload: payload, want: want, used: true})
}

// certificate reads a certificate of the set.
func (o *operator) certificate(file string) (payload, fingerprint string, err error) {
	content, err := o.root.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	if payload, err = certificatePayload(content); err != nil {
		return "", "", err
	}
	fingerprint, err = (&comparison{root: o.root}).fingerprint(file)
	return payload, fingerprint, err
}

// loadedCertificates names what the worker has, if the file alone can be one
// certificate of it and no transaction is open.
func (o *operator) loadedCertificates(ctx context.Context, file string) ([]string, error) {
	if !plainPath.MatchString(file) {
		return nil, refusal("its name cannot be given to the worker")
	}
	for other := range o.files {
		// Keys, OCSP answers and issuers may lie beside a certificate.
		if strings.HasPrefix(other, file+".") {
			return nil, refusal("another file may belong to it")
		}
	}
	answer, err := o.ask(ctx, "show ssl cert")
	if err != nil {
		return nil, err
	}
	loaded := strings.Split(answer, "\n")
	for _, name := range loaded {
		if strings.HasPrefix(name, "*") {
			return nil, refusal("somebody else's transaction is open")
		}
	}
	return loaded, nil
}

// transactCertificate leaves no transaction open, one way or the other.
func (o *operator) transactCertificate(ctx context.Context, change certificateChange) error {
	err := o.transact(ctx, change)
	if err != nil {
		o.abort(ctx, "cert", change.file)
	}
	return err
}

// transact commits only what the worker has understood: that certificate, whole.
func (o *operator) transact(ctx context.Context, change certificateChange) error {
	answer, err := o.ask(ctx, "set ssl cert "+change.file+" <<\n"+change.payload)
	if err := expect(answer, err, "Transaction created for certificate"); err != nil {
		return err
	}
	for _, name := range []string{"*" + change.file, change.file} {
		if name == change.file {
			if err := o.commit(ctx, "cert", change.file); err != nil {
				return err
			}
		}
		shown, err := o.ask(ctx, "show ssl cert "+name)
		if err != nil {
			return err
		}
		_, got, _ := strings.Cut(shown, "SHA1 FingerPrint: ")
		if got, _, _ = strings.Cut(got, "\n"); !strings.EqualFold(strings.TrimSpace(got), change.want) {
			return refusal("the worker understood another certificate")
		}
		// A worker can lose track of what serves a certificate, and then commits
		// one that nobody is shown.
		if name == change.file && isUsed(shown) != change.used {
			return refusal("the worker does not serve what it has")
		}
	}
	return nil
}

// certificatePayload is a file as the command line takes it. An empty line would
// end it in the middle and have the rest read as commands, so that nothing but
// the blocks is sent; what is no clear case is left to a reload.
func certificatePayload(content []byte) (string, error) {
	certificates, keys := 0, 0
	payload, err := pemPayload(content, func(block *pem.Block) error {
		switch {
		case block.Type == "CERTIFICATE":
			certificates++
		case strings.HasSuffix(block.Type, "PRIVATE KEY") && !strings.Contains(block.Type, "ENCRYPTED"):
			keys++
		case block.Type == "DH PARAMETERS" || block.Type == "EC PARAMETERS":
		default:
			return refusal("a block is of a kind that is not known here")
		}
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case certificates == 0 || keys != 1:
		return "", refusal("it is not one key with its certificates")
	case len(payload) > api.MaxLineBytes:
		return "", refusedBySize
	}
	return payload, nil
}

// pemPayload is the blocks of a file, each of which has to be accepted.
func pemPayload(content []byte, accept func(*pem.Block) error) (string, error) {
	var payload strings.Builder
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if len(block.Headers) > 0 {
			return "", refusal("a block has headers")
		}
		if err := accept(block); err != nil {
			return "", err
		}
		payload.Write(pem.EncodeToMemory(block))
	}
	if strings.Count(string(content), "-----BEGIN") != strings.Count(payload.String(), "-----BEGIN") {
		return "", refusal("a block cannot be read")
	}
	return payload.String(), nil
}
