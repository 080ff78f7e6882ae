package node

import (
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/test/cluster/internal/environment"
	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
	"github.com/holdfast-project/holdfast/test/cluster/internal/process/entry"
)

const (
	containerPath = entry.BinTarget + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// nonRootID is who a container runs as that must not be root and names
	// nobody: images decide that, and we have none.
	nonRootID = 65532
)

// describe works out a container's process.
func (c *container) describe() (entry.Spec, error) {
	object := c.pod.object()
	user := userOf(object, c.spec)
	variables, err := environment.Build(object, c.spec, baseVariables(object, user), c.pod.sources)
	if err != nil {
		return entry.Spec{}, err
	}
	mounts, err := c.pod.volumes.Mounts(object, c.spec, variables)
	if err != nil {
		return entry.Spec{}, err
	}
	args := environment.Expand(append(append([]string{}, c.spec.Command...), c.spec.Args...), variables)
	if len(c.spec.Command) == 0 {
		return entry.Spec{}, errors.New("the container has no command; there are no images here, so it must name one")
	}
	mounts = append([]entry.Mount{{Source: c.pod.binDir, Target: entry.BinTarget, ReadOnly: true}}, mounts...)
	security := c.spec.SecurityContext
	return entry.Spec{
		Scratch:         filepath.Join(c.pod.scratch(), fmt.Sprintf("%s-%d", c.spec.Name, c.attempts)),
		Hide:            string(c.pod.dir),
		Hostname:        hostnameOf(object),
		Mounts:          mounts,
		ReadOnly:        security != nil && security.ReadOnlyRootFilesystem != nil && *security.ReadOnlyRootFilesystem,
		Args:            args,
		Env:             variables.List(),
		Dir:             c.spec.WorkingDir,
		User:            user,
		NoNewPrivileges: security != nil && security.AllowPrivilegeEscalation != nil && !*security.AllowPrivilegeEscalation,
	}, nil
}

func hostnameOf(object *corev1.Pod) string {
	if object.Spec.Hostname != "" {
		return object.Spec.Hostname
	}
	const kernelLimit = 63
	return object.Name[:min(len(object.Name), kernelLimit)]
}

// baseVariables is what every container finds, whatever it asks for.
func baseVariables(object *corev1.Pod, user *entry.User) environment.Variables {
	home := "/root"
	if user != nil && user.UID != 0 {
		home = "/"
	}
	return environment.Variables{
		"PATH":                          containerPath,
		"HOME":                          home,
		"HOSTNAME":                      hostnameOf(object),
		"KUBERNETES_SERVICE_HOST":       netns.APIServerIP,
		"KUBERNETES_SERVICE_PORT":       "443",
		"KUBERNETES_SERVICE_PORT_HTTPS": "443",
	}
}

// userOf answers who the container runs as. In a user namespace there is one
// user only, and what the specification says is ignored.
func userOf(object *corev1.Pod, spec *corev1.Container) *entry.User {
	if netns.SingleUser() {
		return nil
	}
	ids := identity(object.Spec.SecurityContext, spec.SecurityContext)
	user := &entry.User{UID: ids.uid, GID: ids.gid}
	if context := object.Spec.SecurityContext; context != nil {
		for _, group := range context.SupplementalGroups {
			user.Groups = append(user.Groups, int(group))
		}
		if context.FSGroup != nil {
			user.Groups = append(user.Groups, int(*context.FSGroup))
		}
	}
	return user
}

type ids struct{ uid, gid int }

// identity lets the container's settings win over the pod's.
func identity(pod *corev1.PodSecurityContext, own *corev1.SecurityContext) ids {
	var uid, gid *int64
	var nonRoot *bool
	if pod != nil {
		uid, gid, nonRoot = pod.RunAsUser, pod.RunAsGroup, pod.RunAsNonRoot
	}
	if own != nil {
		uid, gid, nonRoot = first(own.RunAsUser, uid), first(own.RunAsGroup, gid), first(own.RunAsNonRoot, nonRoot)
	}
	var result ids
	if uid == nil && nonRoot != nil && *nonRoot {
		result = ids{nonRootID, nonRootID}
	}
	if uid != nil {
		result.uid = int(*uid)
	}
	if gid != nil {
		result.gid = int(*gid)
	}
	return result
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
