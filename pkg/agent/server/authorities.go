package server

import (
	"crypto/sha1" //nolint:gosec // the one fingerprint that HAProxy shows
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// Names by which the command line tells files of authorities and files of
// revocations apart.
const (
	authorityFiles  = "ca-file"
	revocationFiles = "crl-file"
)

// authorities are the certificates or the revocation lists of one file, as far
// as a worker shows them.
type authorities struct {
	kind string
	// ids tell items apart, sorted and each once: HAProxy drops repeated ones.
	ids []string
	// revoked are the serial numbers of all lists.
	revoked map[string]bool
}

// readAuthorities reads a file. What is neither kind alone is left to HAProxy.
func readAuthorities(content []byte) (a authorities, payload string, err error) {
	kinds := map[string]string{"CERTIFICATE": authorityFiles, "X509 CRL": revocationFiles}
	a.revoked = make(map[string]bool)
	payload, err = pemPayload(content, func(block *pem.Block) error {
		kind := kinds[block.Type]
		if kind == "" || a.kind != "" && a.kind != kind {
			return refusal("it holds more than authorities, or than revocations")
		}
		if a.kind = kind; kind == authorityFiles {
			sum := sha1.Sum(block.Bytes) //nolint:gosec // compared with HAProxy's own
			a.ids = append(a.ids, strings.ToUpper(hex.EncodeToString(sum[:])))
			return nil
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return refusal("a list of revocations cannot be read")
		}
		a.addList(list)
		return nil
	})
	if err == nil && a.kind == "" {
		err = refusal("it holds neither authorities nor revocations")
	}
	a.settle()
	return a, payload, err
}

func (a *authorities) addList(list *x509.RevocationList) {
	serials := make([]string, 0, len(list.RevokedCertificateEntries))
	for _, revoked := range list.RevokedCertificateEntries {
		serials = append(serials, revoked.SerialNumber.Text(16))
	}
	a.add(list.ThisUpdate, list.NextUpdate, serials)
}

func (a *authorities) add(updated, next time.Time, serials []string) {
	for _, serial := range serials {
		a.revoked[serial] = true
	}
	slices.Sort(serials)
	a.ids = append(a.ids, fmt.Sprint(updated.Unix(), next.Unix(), serials))
}

func (a *authorities) settle() {
	slices.Sort(a.ids)
	a.ids = slices.Compact(a.ids)
}

// dateLayout is how HAProxy shows when a list was made.
const dateLayout = "Jan _2 15:04:05 2006 MST"

// shownAuthorities reads what a worker shows of one file. It reports false when
// it is not understood.
func shownAuthorities(kind, answer string) (a authorities, used, ok bool) {
	a = authorities{kind: kind, revoked: make(map[string]bool)}
	used = strings.Contains(answer, "\nStatus: Used\n")
	if kind == authorityFiles {
		for line := range strings.SplitSeq(answer, "\n") {
			if id, ok := strings.CutPrefix(line, "SHA1 FingerPrint: "); ok {
				a.ids = append(a.ids, strings.ToUpper(strings.TrimSpace(id)))
			}
		}
		a.settle()
		return a, used, len(a.ids) > 0
	}
	lists := strings.Split(answer, "\nCertificate Revocation List #")[1:]
	for _, list := range lists {
		if !a.readShownList(list) {
			return a, used, false
		}
	}
	a.settle()
	return a, used, len(lists) > 0
}

func (a *authorities) readShownList(list string) bool {
	var dates [2]time.Time
	var serials []string
	for line := range strings.SplitSeq(list, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		at := slices.Index([]string{"Last Update", "Next Update"}, name)
		switch {
		case at >= 0:
			date, err := time.Parse(dateLayout, value)
			if err != nil {
				return false
			}
			dates[at] = date
		case name == "Serial Number":
			serial, ok := new(big.Int).SetString(value, 16)
			if !ok {
				return false
			}
			serials = append(serials, serial.Text(16))
		}
	}
	if dates[0].IsZero() || dates[1].IsZero() {
		return false
	}
	a.add(dates[0], dates[1], serials)
	return true
}

// equal reports that both hold the same items.
func (a authorities) equal(other authorities) bool {
	return a.kind == other.kind && slices.Equal(a.ids, other.ids)
}

// trusts reports that whoever was trusted by the other is trusted still.
func (a authorities) trusts(other authorities) bool {
	if a.kind == authorityFiles {
		return !slices.ContainsFunc(other.ids, func(id string) bool { return !slices.Contains(a.ids, id) })
	}
	for serial := range a.revoked {
		if !other.revoked[serial] {
			return false
		}
	}
	return true
}
