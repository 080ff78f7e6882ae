package entry

// Marker is the name, as first argument, under which the binary becomes a
// container.
const Marker = "devcluster-container"

// File descriptors that the parent passes.
const (
	// SpecFD holds the Spec as JSON.
	SpecFD = 3
	// FailureFD takes a Failure when the container cannot be started; it
	// closes without a word when the command took over.
	FailureFD = 4
)

// BinTarget is where the project's binaries are mounted in every container. A
// fixed place can be entered by any user, whatever folder they came from.
const BinTarget = "/opt/holdfast/bin"

// Mount brings Source, a path outside, to Target inside.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Spec is everything a container's process is made from.
type Spec struct {
	// Scratch is an empty folder on a memory file system, for this start only.
	Scratch string `json:"scratch"`
	// Hide names a folder of the host that containers must not see.
	Hide     string   `json:"hide"`
	Hostname string   `json:"hostname"`
	Mounts   []Mount  `json:"mounts"`
	ReadOnly bool     `json:"readOnly,omitempty"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	// User is nil when the container keeps the user of the node.
	User *User `json:"user,omitempty"`
	// NoNewPrivileges forbids gaining rights through set-user-ID files.
	NoNewPrivileges bool `json:"noNewPrivileges,omitempty"`
}

// User is who the command runs as.
type User struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups,omitempty"`
}

// Failure says what could not be done. Reason is the word Kubernetes uses.
type Failure struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (f *Failure) Error() string { return f.Reason + ": " + f.Message }

// Reasons of a Failure.
const (
	ReasonCreate = "CreateContainerError"
	ReasonRun    = "RunContainerError"
)
