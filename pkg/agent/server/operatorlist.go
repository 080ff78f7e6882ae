package server

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// companions are the ends of names by which HAProxy knows a file that belongs to
// a certificate.
var companions = []string{".key", ".ocsp", ".issuer", ".sctl", ".rsa", ".dsa", ".ecdsa"}

// addCertificate stores a certificate that nothing uses until a list names it.
func (o *operator) addCertificate(ctx context.Context, file string) error {
	payload, want, err := o.certificate(file)
	if err != nil {
		return err
	}
	loaded, err := o.loadedCertificates(ctx, file)
	if err != nil {
		return err
	}
	if err := known(loaded, file); err != errNotLoaded {
		return refusal("the worker may have it already")
	}
	if slices.Contains(companions, path.Ext(file)) {
		return refusal("it has the name of what belongs to another one")
	}
	if err := o.checkFolders(ctx, file); err != nil {
		return err
	}
	answer, err := o.ask(ctx, "new ssl cert "+file)
	if err := expect(answer, err, "New empty certificate store"); err != nil {
		return err
	}
	return o.transactCertificate(ctx, certificateChange{file: file, payload: payload, want: want})
}

// checkFolders refuses a file in a folder that listeners load as a whole: after
// a reload they would serve it too.
func (o *operator) checkFolders(ctx context.Context, file string) error {
	lists, err := o.lists(ctx)
	if err != nil {
		return err
	}
	for _, list := range lists {
		if strings.HasPrefix(file, path.Clean(list)+"/") {
			return refusal("listeners load its folder")
		}
	}
	return nil
}

// deleteCertificate removes one that is in no use, which the worker knows.
func (o *operator) deleteCertificate(ctx context.Context, file string) error {
	loaded, err := o.loadedCertificates(ctx, file)
	if err != nil {
		return err
	}
	if err := known(loaded, file); err != nil {
		return err
	}
	answer, err := o.ask(ctx, "del ssl cert "+file)
	return expect(answer, err, "Certificate '"+file+"' deleted!")
}

// lists are the names of crt-lists and of folders that the worker has loaded.
func (o *operator) lists(ctx context.Context) ([]string, error) {
	answer, err := o.ask(ctx, "show ssl crt-list")
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.Trim(answer, "\n"), "\n"), nil
}

// changeEntry adds an entry at the end of a crt-list, or removes one.
func (o *operator) changeEntry(ctx context.Context, op plan.Operation) error {
	if !plainPath.MatchString(op.Path) || !plainPath.MatchString(op.Key) {
		return refusal("its name cannot be given to the worker")
	}
	lists, err := o.lists(ctx)
	if err != nil {
		return err
	}
	if err := known(lists, op.Path); err != nil {
		return err
	}
	if op.Kind == plan.OpCRTListDelete {
		return o.deleteEntry(ctx, op)
	}
	if !o.isLastSource(op.Path) {
		return refusal("a listener has certificates after the list")
	}
	line := strings.TrimRight(op.Key+" "+op.Value, " ")
	answer, err := o.ask(ctx, "add ssl crt-list "+op.Path+" <<\n"+line+"\n")
	if err := expect(answer, err, "Inserting certificate"); err != nil {
		return err
	}
	if !strings.HasSuffix(strings.TrimSpace(answer), "Success!") {
		return refusedByWorker
	}
	return nil
}

// isLastSource reports that what is added to the list is added to the end of
// what its listeners serve, as it is when they are started.
func (o *operator) isLastSource(list string) bool {
	lines, ok := o.listeners(list)
	for _, words := range lines {
		at := slices.Index(words, list)
		if words[at-1] != "crt-list" || slices.Contains(words[at:], "crt") || slices.Contains(words[at:], "crt-list") {
			return false
		}
	}
	return ok
}

// deleteEntry removes the first entry of that certificate and those filters; one
// that took its place is further down.
func (o *operator) deleteEntry(ctx context.Context, op plan.Operation) error {
	answer, err := o.ask(ctx, "show ssl crt-list -n "+op.Path)
	if err != nil {
		return err
	}
	gone, _ := readEntry(op.Key + " " + op.Value)
	for line := range strings.SplitSeq(answer, "\n") {
		entry, ok := readEntry(line)
		cut := strings.LastIndexByte(entry.cert, ':')
		if !ok || cut < 0 || entry.cert[:cut] != op.Key || !slices.Equal(entry.filters, gone.filters) {
			continue
		}
		number, err := strconv.Atoi(entry.cert[cut+1:])
		if err != nil {
			return refusal("the worker shows what is not understood")
		}
		answer, err := o.ask(ctx, fmt.Sprintf("del ssl crt-list %s %s:%d", op.Path, op.Key, number))
		return expect(answer, err, "Entry '"+op.Key+"' deleted")
	}
	return refusal("the worker has no such entry")
}
