package controlplane

import (
	"fmt"
	"os"

	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

// auditPolicy logs who asked for which write, refused ones too, and no content.
// Reads are left out, and what the cluster writes by itself all the time.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  users: ["system:apiserver", "system:kube-controller-manager"]
- level: None
  userGroups: ["system:nodes"]
- level: Metadata
`

// Bounds of the audit log: two files of so many MiB.
const (
	auditMegabytes = "100"
	auditOldFiles  = "1"
)

// auditFlags have kube-apiserver write every entry before it answers, so that
// whoever has an answer finds the entry.
func auditFlags(dir state.Dir) ([]string, error) {
	policy := dir.Path("run", "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("writing the audit policy: %w", err)
	}
	return []string{
		"--audit-policy-file=" + policy,
		"--audit-log-path=" + dir.Log("audit"),
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=" + auditMegabytes,
		"--audit-log-maxbackup=" + auditOldFiles,
	}, nil
}
