package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// EnvDir names the environment variable that overrides the default directory.
const EnvDir = "HOLDFAST_DEVCLUSTER"

// EnvKubectlCache tells kubectl where to remember discovery, so that it does not
// leave files in the user's home folder.
const EnvKubectlCache = "KUBECACHEDIR"

// maxDirLength keeps socket paths under the 108 bytes the kernel allows.
const maxDirLength = 80

// ErrNotOurs says that a directory exists and no cluster made it.
var ErrNotOurs = errors.New("the directory exists, is not empty and was not made by devcluster")

// Dir is the directory of one cluster.
type Dir string

// Info is what a running cluster tells about itself, stored in the marker file.
type Info struct {
	// PID is the supervisor, for messages and signals while the lock is held.
	PID int `json:"pid"`
	// Port is where 127.0.0.1 leads to kube-apiserver.
	Port int `json:"port,omitempty"`
	// BinDir comes first in the PATH of every container.
	BinDir string `json:"binDir"`
	// StartedAt is when the supervisor was started.
	StartedAt time.Time `json:"startedAt"`
	// Ready says that the start-up checks passed once.
	Ready bool `json:"ready"`
}

// Default answers the directory used when none is named.
func Default() Dir {
	if named := os.Getenv(EnvDir); named != "" {
		return Dir(named)
	}
	if home := os.Getenv("XDG_STATE_HOME"); home != "" {
		return Dir(filepath.Join(home, "holdfast", "devcluster"))
	}
	return Dir(filepath.Join(os.TempDir(), "holdfast-devcluster-"+strconv.Itoa(os.Getuid())))
}

// Resolve makes a directory name absolute and refuses one whose sockets the
// kernel could not name.
func Resolve(name string) (Dir, error) {
	dir := Default()
	if name != "" {
		dir = Dir(name)
	}
	abs, err := filepath.Abs(string(dir))
	if err != nil {
		return "", fmt.Errorf("resolving state directory: %w", err)
	}
	if len(abs) > maxDirLength {
		return "", fmt.Errorf("state directory %s is %d characters long; the sockets in it allow at most %d, choose a shorter --state", abs, len(abs), maxDirLength)
	}
	return Dir(abs), nil
}

// Path joins names below the directory.
func (d Dir) Path(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

// Places inside the directory that more than one package needs.
func (d Dir) marker() string { return d.Path("devcluster.json") }

// Kubeconfig is the administrator's configuration for use on the host.
func (d Dir) Kubeconfig() string { return d.Path("kubeconfig") }

// InsideKubeconfig is the administrator's configuration inside the namespace.
func (d Dir) InsideKubeconfig() string { return d.Path("pki", "inside.kubeconfig") }

// ToolDir holds the kubectl link.
func (d Dir) ToolDir() string { return d.Path("tools") }

// KubectlCache is where kubectl remembers discovery.
func (d Dir) KubectlCache() string { return d.Path("tools", "cache") }

// ControlSocket is where commands are run inside the namespace.
func (d Dir) ControlSocket() string { return d.Path("run", "control.sock") }

// APISocket leads to kube-apiserver from outside the namespace.
func (d Dir) APISocket() string { return d.Path("run", "apiserver.sock") }

// Log is the log file of one component.
func (d Dir) Log(component string) string { return d.Path("logs", component+".log") }

// Scratch is where the namespace mounts its private memory file system.
func (d Dir) Scratch() string { return d.Path("scratch") }

// Pods holds pod volumes on disk and container logs.
func (d Dir) Pods() string { return d.Path("pods") }

// Create makes the directory and everything fixed below it.
func (d Dir) Create(info Info) error {
	for _, sub := range []string{"", "run", "logs", "pki", "tools", "etcd", "scratch", "pods"} {
		if err := os.MkdirAll(d.Path(sub), 0o700); err != nil {
			return fmt.Errorf("creating state directory: %w", err)
		}
	}
	return d.Write(info)
}

// Write replaces the marker file in one step, so that a reader never sees half.
func (d Dir) Write(info Info) error {
	text, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", d.marker(), err)
	}
	next := d.marker() + ".next"
	if err := os.WriteFile(next, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing state: %w", err)
	}
	if err := os.Rename(next, d.marker()); err != nil {
		return fmt.Errorf("writing state: %w", err)
	}
	return nil
}

// Read answers the stored information; fs.ErrNotExist when there is none.
func (d Dir) Read() (Info, error) {
	var info Info
	text, err := os.ReadFile(d.marker())
	if err != nil {
		return info, fmt.Errorf("reading state: %w", err)
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return info, fmt.Errorf("reading %s: %w", d.marker(), err)
	}
	return info, nil
}

// Claimable answers nil when the directory is absent, empty but for locks, or ours.
func (d Dir) Claimable() error {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading state directory: %w", err)
	}
	foreign := false
	for _, entry := range entries {
		switch entry.Name() {
		case filepath.Base(d.marker()):
			return nil
		case commandLock, supervisorLock:
		default:
			foreign = true
		}
	}
	if foreign {
		return fmt.Errorf("%s: %w; name another with --state", d, ErrNotOurs)
	}
	return nil
}

// Remove deletes the whole directory. Folders that a container left without
// write permission are opened first: an ordinary user could not delete them.
func (d Dir) Remove() error {
	if err := d.Claimable(); err != nil {
		return err
	}
	if err := os.RemoveAll(string(d)); err == nil {
		return nil
	}
	_ = filepath.WalkDir(string(d), func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(string(d)); err != nil {
		return fmt.Errorf("deleting state directory: %w", err)
	}
	return nil
}
