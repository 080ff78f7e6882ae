package server

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

//go:embed bootstrap.cfg
var defaultBootstrap []byte

// Initialise lays out the folder with the bootstrap set, unless a set is
// current already: then HAProxy restarted in a living pod, and that set is what
// it must start with. An empty bootstrap means the built-in configuration.
func Initialise(ctx context.Context, dir string, bootstrap []byte) error {
	l, err := newLayout(dir)
	if err != nil {
		return err
	}
	return initialise(ctx, &disk{}, l, bootstrap)
}

func initialise(ctx context.Context, d *disk, l layout, bootstrap []byte) error {
	for _, folder := range []string{l.dir, l.sets(), l.run()} {
		if err := d.mkdir(folder); err != nil {
			return fmt.Errorf("creating folder: %w", err)
		}
	}
	if err := os.Chmod(l.run(), 0o700); err != nil {
		return fmt.Errorf("closing %s to others: %w", l.run(), err)
	}
	if err := layNonce(d, l); err != nil {
		return err
	}
	if _, err := os.Lstat(l.current()); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(bootstrap) == 0 {
		bootstrap = defaultBootstrap
	}
	id, err := stageBootstrap(newSlots(d, l), bootstrap)
	if err != nil {
		return fmt.Errorf("writing bootstrap set: %w", err)
	}
	if err := saveJournal(d, l, freshJournal(l, id)); err != nil {
		return err
	}
	if err := d.symlink(currentTarget(id), l.forward()); err != nil {
		return err
	}
	if err := d.rename(l.forward(), l.current()); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Laid out the bootstrap set", "set", id, "dir", l.dir)
	return nil
}

// freshJournal starts from nothing but what fences: a folder that lost its
// link must not forget which terms it heard of, nor pass as untouched.
func freshJournal(l layout, id string) *journal {
	fresh := &journal{Current: id}
	old, err := loadJournal(l)
	if err != nil {
		return fresh
	}
	fresh.TemplateUID, fresh.Fence, fresh.FencePlan = old.TemplateUID, old.Fence, old.FencePlan
	fresh.AppliedToken, fresh.Generation = old.AppliedToken, old.Generation
	fresh.Disowned = old.Disowned || !old.AppliedToken.IsZero()
	return fresh
}

func layNonce(d *disk, l layout) error {
	if target, err := os.Readlink(l.nonce()); err == nil && target == nonceTarget {
		return nil
	}
	temporary := l.nonce() + ".tmp"
	if err := d.symlink(nonceTarget, temporary); err != nil {
		return fmt.Errorf("linking %s: %w", l.nonce(), err)
	}
	if err := d.rename(temporary, l.nonce()); err != nil {
		return fmt.Errorf("linking %s: %w", l.nonce(), err)
	}
	return nil
}

func stageBootstrap(s *slots, config []byte) (string, error) {
	st, err := newStaging(s)
	if err != nil {
		return "", err
	}
	file := api.Declare(api.FileSpec{Path: api.ConfigPath, Kind: api.KindConfig, ReloadOnChange: true}, config)
	if err := st.write(file, bytes.NewReader(config)); err != nil {
		return "", errors.Join(err, st.discard())
	}
	if err := st.finish(&set{ID: st.id, Bootstrap: true, Files: []api.File{file}}); err != nil {
		return "", errors.Join(err, st.discard())
	}
	return st.id, nil
}
