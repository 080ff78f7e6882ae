package server

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// replaceAuthorities changes a file of authorities, or of revocations, in one
// transaction, which is gone when this returns, one way or the other.
func (o *operator) replaceAuthorities(ctx context.Context, file string) error {
	content, err := o.root.ReadFile(file)
	if err != nil {
		return err
	}
	want, payload, err := readAuthorities(content)
	if err != nil {
		return err
	}
	if err := o.checkAuthorities(ctx, want.kind, file); err != nil {
		return err
	}
	was, err := o.authorities(ctx, want.kind, file)
	if err != nil {
		return err
	}
	// A session of before is resumed without another look at its certificate, and
	// only a new worker has forgotten it.
	if !want.trusts(was) {
		return refusal("somebody is trusted no longer, and could resume a session")
	}
	certificates, err := o.usedCertificates(ctx)
	if err != nil {
		return err
	}
	if err := o.transactAuthorities(ctx, file, payload, want); err != nil {
		o.abort(ctx, want.kind, file)
		return err
	}
	// Versions before late 2025 lose the certificates beside a file that was
	// replaced: their next replacement would reach nobody, and the next one of the
	// file would end the worker.
	after, err := o.usedCertificates(ctx)
	if err == nil && !maps.Equal(certificates, after) {
		err = refusal("certificates beside it are lost to later changes")
	}
	return err
}

// checkAuthorities requires a file that nothing but lines of listeners names:
// only what hangs on those is built anew.
func (o *operator) checkAuthorities(ctx context.Context, kind, file string) error {
	if !plainPath.MatchString(file) {
		return refusal("its name cannot be given to the worker")
	}
	answer, err := o.ask(ctx, "show ssl "+kind)
	if err != nil {
		return err
	}
	var loaded []string
	for line := range strings.SplitSeq(answer, "\n") {
		name, _, _ := strings.Cut(line, " - ")
		if strings.HasPrefix(name, "*") {
			return refusal("somebody else's transaction is open")
		}
		loaded = append(loaded, name)
	}
	if err := known(loaded, file); err != nil {
		return err
	}
	for path, other := range o.files {
		if other.Kind != api.KindCRTList {
			continue
		}
		content, err := o.root.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.Contains(string(content), file) {
			return refusal("a list of certificates may name it")
		}
	}
	lines, ok := o.listeners(file)
	if !ok {
		return refusal("the configuration names it where a worker keeps it")
	}
	for _, words := range lines {
		for i, word := range words {
			if word == file && words[i-1] != kind {
				return refusal("the configuration names it where a worker keeps it")
			}
		}
	}
	return nil
}

// listeners are the lines of listeners that name a file. It reports false when
// anything else may name it, or nothing does.
func (o *operator) listeners(file string) (lines [][]string, ok bool) {
	for line := range strings.Lines(o.config) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if strings.HasPrefix(words[0], ".") {
			return nil, false // conditions decide what is in force
		}
		if !strings.Contains(line, file) {
			continue
		}
		if words[0] != "bind" || !slices.Contains(words, file) || strings.ContainsAny(line, `"'\#`) {
			return nil, false
		}
		lines = append(lines, words)
	}
	return lines, len(lines) > 0
}

// authorities reads a file back, which has to be in use.
func (o *operator) authorities(ctx context.Context, kind, file string) (authorities, error) {
	answer, err := o.ask(ctx, "show ssl "+kind+" "+file)
	if err != nil {
		return authorities{}, err
	}
	shown, used, ok := shownAuthorities(kind, answer)
	switch {
	case !ok:
		return shown, refusal("the worker shows what is not understood")
	case !used && !strings.HasPrefix(file, "*"):
		return shown, refusal("no listener uses it")
	}
	return shown, nil
}

// transactAuthorities commits only what the worker has understood.
func (o *operator) transactAuthorities(ctx context.Context, file, payload string, want authorities) error {
	answer, err := o.ask(ctx, "set ssl "+want.kind+" "+file+" <<\n"+payload)
	if err := expect(answer, err, "transaction created for "); err != nil {
		return err
	}
	for _, name := range []string{"*" + file, file} {
		if name == file {
			if err := o.commit(ctx, want.kind, file); err != nil {
				return err
			}
		}
		shown, err := o.authorities(ctx, want.kind, name)
		if err != nil {
			return err
		}
		if !shown.equal(want) {
			return refusal("the worker understood something else")
		}
	}
	return nil
}

// commit ends a transaction, which has to succeed.
func (o *operator) commit(ctx context.Context, kind, file string) error {
	answer, err := o.ask(ctx, "commit ssl "+kind+" "+file)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(strings.TrimSpace(answer), "Success!") {
		return refusedByWorker
	}
	return nil
}

// abort leaves no transaction open, in doubt too: it would block the next one.
func (o *operator) abort(ctx context.Context, kind, file string) {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	_, _ = o.ask(ending, "abort ssl "+kind+" "+file) // none is open, then
}

// usedCertificates are those that the worker serves.
func (o *operator) usedCertificates(ctx context.Context) (map[string]bool, error) {
	answer, err := o.ask(ctx, "show ssl cert")
	if err != nil {
		return nil, err
	}
	used := make(map[string]bool)
	for name := range strings.SplitSeq(answer, "\n") {
		if !plainPath.MatchString(name) {
			continue
		}
		shown, err := o.ask(ctx, "show ssl cert "+name)
		if err != nil {
			return nil, err
		}
		used[name] = isUsed(shown)
	}
	return used, nil
}

// isUsed reports that a certificate that is shown is served.
func isUsed(shown string) bool { return strings.Contains(shown, "\nStatus: Used\n") }
